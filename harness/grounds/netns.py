"""Namespace hosts, inside the sandbox of the run's controller."""

from __future__ import annotations

from contextlib import AsyncExitStack

from harness.grounds import NO_PROXY, Ground, Setting, namespaced
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.netns import NamespaceHosts
from nodes.hosts.processes import ChildProcesses


async def up(stack: AsyncExitStack, setting: Setting) -> Ground:
    """Bring the hosts up."""
    hosts = await stack.enter_async_context(NamespaceHosts.up(setting.run.path / "nodes", setting.plan.nodes))
    links, rpcs = await namespaced(stack, setting, hosts)
    return Ground(
        hosts.views,
        hosts.host,
        links,
        lambda system, tell: ChildProcesses(hosts, system, tell),
        clocks=lambda processes: ProcessClocks(processes.pid),
        rpcs=rpcs,
        lacking={"rpcs": NO_PROXY},
    )
