"""Kinds of host: each module provisions the hosts of one kind and reports which capabilities they have.

Each module ends in a harness.model.hosts.HostKind, registered with the entry point group `splitbrain.hosts`. Only the
one that a plan needs is loaded.

Contains which parts make up a kind of host. Does not contain how any part works (nodes).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from harness import plugins
from harness.model.faults.disks import Disks
from harness.model.faults.packets import Packets
from harness.model.faults.rpc import CLIENTS, INTERCEPT, Rpcs
from harness.model.hosts import Clocks, Host, HostView, Links
from harness.model.systems import NodeSystem
from harness.planning.plan import Plan
from nodes.hosts.kinds import NamespacedHosts
from nodes.hosts.links import NamespaceLinks
from nodes.hosts.processes import ProcessEvent, ServerProcesses
from nodes.proxy.rpcs import NamespaceRpcs, Recording
from results.store import RunDirectory

NO_PROXY = "this run has no proxy between its nodes, because its story has no RPC fault"
NOT_REQUESTED = "not provisioned for this run, because its story does not use it"


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What to provision: the plan, its run directory, what its nodes run, and the record of RPCs."""

    plan: Plan
    run: RunDirectory
    system: NodeSystem
    recording: Recording

    def has(self, actions: Collection[str]) -> bool:
        """Whether the story has any of these actions; what only they need is provisioned for them alone."""
        return any(step.f in actions for step in self.plan.story)

    @property
    def intercepts_clients(self) -> bool:
        """Whether the story intercepts what clients send or receive."""
        rules = [rule["match"] for step in self.plan.story if step.f == INTERCEPT for rule in step.value["rules"]]
        return any(CLIENTS in (*match.get("sources", ()), *match.get("targets", ())) for match in rules)

    @property
    def ports(self) -> Sequence[int]:
        """The ports that nodes use among themselves and for clients."""
        return plugins.system(self.plan.system)[0].ports(self.plan.layout)


async def _nothing_to_collect() -> None:
    pass


@dataclass(slots=True)
class Environment:
    """Hosts that are up. A capability that is None is not available, and `unavailable` says why.

    collect fetches what nodes left, once they have ended, to where the controller reads it.
    """

    views: Mapping[int, HostView]
    host: Callable[[int], Host]
    links: Links
    processes: Callable[[NodeSystem, ProcessEvent], ServerProcesses]
    clocks: Callable[[ServerProcesses], Clocks] | None = None
    packets: Packets | None = None
    disks: Disks | None = None
    rpcs: Rpcs | None = None
    unavailable: dict[str, str] = field(default_factory=dict)
    collect: Callable[[], Awaitable[None]] = _nothing_to_collect


async def namespace_links(
    stack: AsyncExitStack, spec: EnvironmentSpec, hosts: NamespacedHosts
) -> tuple[Links, Rpcs | None]:
    """The links of hosts with network namespaces, and a proxy between them where RPCs are intercepted or recorded."""
    links = NamespaceLinks(hosts)
    stack.callback(links.close)
    if not (spec.has({INTERCEPT}) or spec.plan.record_rpcs):
        return links, None
    clients = spec.intercepts_clients
    proxy = NamespaceRpcs.up(hosts, spec.ports, spec.plan.seed, spec.recording, clients)
    return links, await stack.enter_async_context(proxy)
