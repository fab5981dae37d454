"""Where a run takes place, one module a kind of host: each brings its hosts up and says what can be done to them.

A module has `up(stack, spec) -> Environment`, with what it opened left on the stack; one whose hosts outlive their
controller has `undo(details) -> str` too, which takes them down by what the journal says of them, and does nothing
where nothing is left. harness.environments.provision loads the module that a plan needs, so that nobody waits for
libraries of the
others. What may live here: which parts make up a kind of host. What may not: how any of them works (nodes).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol

from harness.model.faults.disks import Disks
from harness.model.faults.packets import Packets
from harness.model.faults.rpc import CLIENTS, INTERCEPT, Rpcs
from harness.model.hosts import Clocks, Host, HostView, Links
from harness.model.session import Connection
from harness.model.systems import CONTROLLER_PORT, System
from harness.planning.plan import Plan
from nodes.hosts.kinds import NamespacedHosts
from nodes.hosts.links import NamespaceLinks
from nodes.hosts.processes import ProcessEvent, ServerProcesses
from nodes.proxy.rpcs import NamespaceRpcs, Recording
from nodes.wire.connection import WireConnection
from results.store import RunDirectory

NO_PROXY = "no proxy stands between the nodes of this run, as its story disturbs no RPC"
NOT_ASKED = "nothing stands ready for it in this run, as its story has none"
BROKER_PORTS = (9092, 9094)


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What is to take place: the plan, where it is recorded, the system, and the record of RPCs."""

    plan: Plan
    run: RunDirectory
    system: System
    recording: Recording

    def has(self, deeds: Collection[str]) -> bool:
        """Whether the story has any of these deeds; what only they need is brought up for those alone."""
        return any(step.f in deeds for step in self.plan.story)

    @property
    def intercepts_clients(self) -> bool:
        """Whether the story disturbs what clients send or receive."""
        rules = [rule["match"] for step in self.plan.story if step.f == INTERCEPT for rule in step.value["rules"]]
        return any(CLIENTS in (*match.get("sources", ()), *match.get("targets", ())) for match in rules)

    @property
    def ports(self) -> Sequence[int]:
        """Those that nodes have for each other and for clients."""
        return (CONTROLLER_PORT, *(BROKER_PORTS if self.plan.layout == "combined" else ()))


async def _nothing_to_bring() -> None:
    pass


@dataclass(slots=True)
class Environment:
    """Hosts that are up. What is None cannot be had, and `unavailable` says why.

    collect fetches what nodes left, once they have ended, to where the controller reads it.
    """

    views: Mapping[int, HostView]
    host: Callable[[int], Host]
    links: Links
    processes: Callable[[System, ProcessEvent], ServerProcesses]
    clocks: Callable[[ServerProcesses], Clocks] | None = None
    packets: Packets | None = None
    disks: Disks | None = None
    rpcs: Rpcs | None = None
    unavailable: dict[str, str] = field(default_factory=dict)
    collect: Callable[[], Awaitable[None]] = _nothing_to_bring

    def connect(self, node: int, client_id: str, port: int = CONTROLLER_PORT) -> Connection:
        """A connection from the controller to a node, on a way that no fault touches."""
        return WireConnection(self.views[node].bound, port, client_id)


class EnvironmentModule(Protocol):
    """What each module of this package is."""

    async def up(self, stack: AsyncExitStack, spec: EnvironmentSpec) -> Environment:
        """Bring the hosts up."""

    def undo(self, details: Mapping[str, str]) -> str:
        """Take down what outlived its controller; what was done, in words."""


async def namespace_links(
    stack: AsyncExitStack, spec: EnvironmentSpec, hosts: NamespacedHosts
) -> tuple[Links, Rpcs | None]:
    """The links of hosts with network namespaces, and a proxy between them where the story disturbs RPCs."""
    links = NamespaceLinks(hosts)
    stack.callback(links.close)
    if not spec.has({INTERCEPT}):
        return links, None
    clients = spec.intercepts_clients
    proxy = NamespaceRpcs.up(hosts, spec.ports, spec.plan.seed, spec.recording, clients)
    return links, await stack.enter_async_context(proxy)
