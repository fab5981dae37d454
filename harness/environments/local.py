"""Plain processes on this machine's loopback; a proxy in front of each node makes partitions and RPC faults."""

from __future__ import annotations

from contextlib import AsyncExitStack

from harness.environments import Environment, EnvironmentSpec
from harness.model.hosts import HostKind
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.local import UNAVAILABLE, LocalHosts
from nodes.hosts.processes import ChildProcesses
from nodes.proxy.proxy_links import ProxyLinks


async def provision(stack: AsyncExitStack, spec: EnvironmentSpec) -> Environment:
    """Provision the hosts."""
    hosts = await stack.enter_async_context(LocalHosts.up(spec.run.path / "nodes", spec.plan.nodes))
    doors = ProxyLinks.up(hosts.views, spec.ports, spec.plan.seed, spec.recording)
    links = await stack.enter_async_context(doors)
    return Environment(
        hosts.views,
        hosts.host,
        links,
        lambda system, tell: ChildProcesses(hosts, system, tell),
        clocks=lambda processes: ProcessClocks(processes.pid),
        rpcs=links.rpcs,
        unavailable=dict(UNAVAILABLE),
    )


LOCAL = HostKind("local", provision)
