"""Containers on this machine's engine, their namespaces entered from outside."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from harness.environments import NO_PROXY, Ground, Setting, namespaced
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.docker.engine import heal
from nodes.hosts.docker.hosts import DockerHosts
from nodes.hosts.docker.processes import DockerProcesses

LACKING = {
    "packets": "packets are treated on the bridge of namespace hosts; use those",
    "disks": "a container's files are the controller's own; use namespace hosts for disks of their own",
}


async def up(stack: AsyncExitStack, setting: Setting) -> Ground:
    """Bring the hosts up."""
    run, plan = setting.run, setting.plan
    containers = DockerHosts.up(run.path / "nodes", plan.nodes, run.label, read_only=setting.system.reads)
    hosts = await stack.enter_async_context(containers)
    links, rpcs = await namespaced(stack, setting, hosts)
    return Ground(
        hosts.views,
        hosts.host,
        links,
        lambda system, tell: DockerProcesses(hosts, system, tell),
        clocks=lambda processes: ProcessClocks(processes.pid),
        rpcs=rpcs,
        lacking={"rpcs": NO_PROXY, **LACKING},
    )


def undo(details: Mapping[str, str]) -> str:
    """Remove what carries the run's label."""
    heal(details["label"])
    return f"removed the containers and networks of {details['label']}"
