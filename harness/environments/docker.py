"""Containers on this machine's Docker engine; their namespaces are entered from outside."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from harness.environments import NO_PROXY, Environment, EnvironmentSpec, namespace_links
from harness.model.hosts import HostKind
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.docker.engine import heal
from nodes.hosts.docker.hosts import DockerHosts
from nodes.hosts.docker.processes import DockerProcesses

UNAVAILABLE = {
    "packets": "packet faults need --hosts netns",
    "disks": "disk faults need --hosts netns: containers share the controller's disk",
}


async def provision(stack: AsyncExitStack, spec: EnvironmentSpec) -> Environment:
    """Provision the hosts."""
    run, plan = spec.run, spec.plan
    containers = DockerHosts.up(run.path / "nodes", plan.nodes, run.label, read_only=spec.system.reads)
    hosts = await stack.enter_async_context(containers)
    links, rpcs = await namespace_links(stack, spec, hosts)
    return Environment(
        hosts.views,
        hosts.host,
        links,
        lambda system, on_event: DockerProcesses(hosts, system, on_event),
        clocks=lambda processes: ProcessClocks(processes.pid),
        rpcs=rpcs,
        unavailable={"rpcs": NO_PROXY, **UNAVAILABLE},
    )


def undo(details: Mapping[str, str]) -> str:
    """Remove everything that has the run's label."""
    heal(details["label"])
    return f"removed the containers and networks of {details['label']}"


DOCKER = HostKind("docker", provision, undo, outlives=True)
