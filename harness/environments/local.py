"""Plain processes on this machine's loopback; a proxy in front of each node makes partitions and RPC faults."""

from __future__ import annotations

from contextlib import AsyncExitStack

from harness.environments import Environment, EnvironmentSpec
from harness.model.hosts import HostKind
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.local import LocalHosts
from nodes.hosts.processes import ChildProcesses
from nodes.proxy.proxy_links import ProxyLinks

UNAVAILABLE = {
    "packets": "not possible with `--hosts local`: all nodes share one loopback; use netns",
    "disks": "not possible with `--hosts local`: all nodes share the controller's file system; use netns",
}


async def provision(stack: AsyncExitStack, spec: EnvironmentSpec) -> Environment:
    """Provision the hosts."""
    hosts = await stack.enter_async_context(LocalHosts.up(spec.run.path / "nodes", spec.plan.nodes))
    proxy = ProxyLinks.up(hosts.views, spec.ports, spec.plan.seed, spec.recording)
    links = await stack.enter_async_context(proxy)
    return Environment(
        hosts.views,
        hosts.host,
        links,
        lambda system, on_event: ChildProcesses(hosts, system, on_event),
        clocks=lambda processes: ProcessClocks(processes.pid),
        rpcs=links.rpcs,
        unavailable=dict(UNAVAILABLE),
    )


LOCAL = HostKind("local", provision, proxied=True)
