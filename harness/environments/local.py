"""Plain processes on this machine's loopback; a proxy's door before each node makes partitions and RPC faults."""

from __future__ import annotations

from contextlib import AsyncExitStack

from harness.environments import Ground, Setting
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.local import LACKING, LocalHosts
from nodes.hosts.processes import ChildProcesses
from nodes.proxy.listeners_local import Doors


async def up(stack: AsyncExitStack, setting: Setting) -> Ground:
    """Bring the hosts up."""
    hosts = await stack.enter_async_context(LocalHosts.up(setting.run.path / "nodes", setting.plan.nodes))
    doors = Doors.up(hosts.views, setting.ports, setting.plan.seed, setting.recording)
    links = await stack.enter_async_context(doors)
    return Ground(
        hosts.views,
        hosts.host,
        links,
        lambda system, tell: ChildProcesses(hosts, system, tell),
        clocks=lambda processes: ProcessClocks(processes.pid),
        rpcs=links.rpcs,
        lacking=dict(LACKING),
    )
