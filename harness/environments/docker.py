"""Containers on this machine's engine, their namespaces entered from outside."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from harness.environments import NO_PROXY, Environment, EnvironmentSpec, namespace_links
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.docker.engine import heal
from nodes.hosts.docker.hosts import DockerHosts
from nodes.hosts.docker.processes import DockerProcesses

UNAVAILABLE = {
    "packets": "packets are treated on the bridge of namespace hosts; use those",
    "disks": "a container's files are the controller's own; use namespace hosts for disks of their own",
}


async def up(stack: AsyncExitStack, spec: EnvironmentSpec) -> Environment:
    """Bring the hosts up."""
    run, plan = spec.run, spec.plan
    containers = DockerHosts.up(run.path / "nodes", plan.nodes, run.label, read_only=spec.system.reads)
    hosts = await stack.enter_async_context(containers)
    links, rpcs = await namespace_links(stack, spec, hosts)
    return Environment(
        hosts.views,
        hosts.host,
        links,
        lambda system, tell: DockerProcesses(hosts, system, tell),
        clocks=lambda processes: ProcessClocks(processes.pid),
        rpcs=rpcs,
        unavailable={"rpcs": NO_PROXY, **UNAVAILABLE},
    )


def undo(details: Mapping[str, str]) -> str:
    """Remove what carries the run's label."""
    heal(details["label"])
    return f"removed the containers and networks of {details['label']}"
