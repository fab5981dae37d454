"""Where a run takes place: brings up the hosts that a plan names, and all that can be done to them.

What may live here: which parts make up a kind of host. What may not: how any of them works (nodes).

    async with hosting(plan, run, system, clock) as ground:
        ground.processes(system, tell)      # and links, clocks, packets, disks, rpcs, or why there are none

Only namespace hosts live in a sandbox; the controller of any other kind runs on the machine itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from harness.engine.clock import RunClock
from harness.model.disks import Disks
from harness.model.hosts import Clocks, Host, HostKind, HostView, Links, Processes
from harness.model.packets import Packets
from harness.model.rpc import DISTURB, Rpcs
from harness.model.session import Connection
from harness.model.systems import CONTROLLER_PORT, System
from harness.plan import Plan
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.links import NamespaceLinks
from nodes.hosts.local import LACKING, LocalHosts
from nodes.hosts.netns import NamespaceHosts
from nodes.hosts.processes import ChildProcesses
from nodes.proxy.doors import Doors
from nodes.proxy.rpcs import NamespaceRpcs, Recording
from nodes.wire.connection import WireConnection
from results.store import RunDirectory

CONTROLLED_OUTSIDE: tuple[HostKind, ...] = ("local", "docker", "ssh")
NO_PROXY = "no proxy stands between the nodes of this run, as its story disturbs no RPC"

ProcessEvent = Callable[[int, str, str], None]


class ServerProcesses(Processes, Protocol):
    """The servers, and all of them at once."""

    def pid(self, node: int) -> int:
        """The server's process on this machine. Raises PeerFailure where it is gone."""

    async def kill_all(self) -> None:
        """End every server and wait until they are gone."""


@dataclass(slots=True)
class Ground:
    """Hosts that are up. What is None cannot be had, and `lacking` says why."""

    views: Mapping[int, HostView]
    host: Callable[[int], Host]
    links: Links
    processes: Callable[[System, ProcessEvent], ServerProcesses]
    clocks: Callable[[ServerProcesses], Clocks] | None = None
    packets: Packets | None = None
    disks: Disks | None = None
    rpcs: Rpcs | None = None
    lacking: dict[str, str] = field(default_factory=dict)

    def connect(self, node: int, client_id: str, port: int = CONTROLLER_PORT) -> Connection:
        """A connection from the controller to a node, on a way that no fault touches."""
        return WireConnection(self.views[node].bound, port, client_id)


@asynccontextmanager
async def hosting(plan: Plan, run: RunDirectory, system: System, clock: RunClock) -> AsyncIterator[Ground]:
    """Bring up the plan's hosts; they are gone at the end of the block."""
    recording = Recording(run.path / "rpcs.jsonl", clock.monotonic_origin_ns)
    async with AsyncExitStack() as stack:
        yield await _KINDS[plan.hosts](stack, plan, run, system, recording)


async def _namespaces(
    stack: AsyncExitStack, plan: Plan, run: RunDirectory, _system: System, recording: Recording
) -> Ground:
    hosts = await stack.enter_async_context(NamespaceHosts.up(run.path / "nodes", plan.nodes))
    links = NamespaceLinks(hosts)
    stack.callback(links.close)
    rpcs, lacking = None, {"rpcs": NO_PROXY}
    if disturbs(plan):
        rpcs = await stack.enter_async_context(NamespaceRpcs.up(hosts, seed=plan.seed, recording=recording))
        lacking = {}
    return Ground(
        hosts.views,
        hosts.host,
        links,
        lambda system, tell: ChildProcesses(hosts, system, tell),
        lambda processes: ProcessClocks(processes.pid),
        rpcs=rpcs,
        lacking=lacking,
    )


async def _local(stack: AsyncExitStack, plan: Plan, run: RunDirectory, _system: System, recording: Recording) -> Ground:
    hosts = await stack.enter_async_context(LocalHosts.up(run.path / "nodes", plan.nodes))
    doors = await stack.enter_async_context(Doors.up(hosts.views, _ports(plan), plan.seed, recording))
    return Ground(
        hosts.views,
        hosts.host,
        doors,
        lambda system, tell: ChildProcesses(hosts, system, tell),
        lambda processes: ProcessClocks(processes.pid),
        rpcs=doors.rpcs,
        lacking=dict(LACKING),
    )


def disturbs(plan: Plan) -> bool:
    """Whether a plan's story disturbs RPCs; the proxy is brought up for those alone."""
    return any(step.f == DISTURB for step in plan.story)


def _ports(plan: Plan) -> Sequence[int]:
    """Those that nodes have for each other and for clients."""
    return (CONTROLLER_PORT,) if plan.layout == "controllers" else (9092, CONTROLLER_PORT, 9094)


_KINDS: Mapping[HostKind, Callable[[AsyncExitStack, Plan, RunDirectory, System, Recording], Awaitable[Ground]]] = {
    "netns": _namespaces,
    "local": _local,
}
