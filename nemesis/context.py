"""What faults work with: the capabilities of the hosts, the leader, random draws, and the state of faults in a run.

Contains the resolution of roles to nodes. Does not contain faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.model import BadInput, PeerFailure
from harness.model.faults.disks import Disks
from harness.model.faults.membership import Change, Membership
from harness.model.faults.packets import Packets
from harness.model.faults.probe import Probe
from harness.model.faults.reassignment import QuorumVoters
from harness.model.faults.requests import Requests
from harness.model.faults.rpc import RpcRule, Rpcs, RuleCount
from harness.model.hosts import Clocks, Link, Links, Processes
from harness.model.story import (
    ALL,
    CUT_OFF,
    DOWN,
    FOLLOWERS,
    LEADER,
    LOST_THE_ELECTION,
    MAJORITY,
    MINORITY,
    ONE,
    PAUSED,
    ROLES,
    SKEWED,
    Who,
)
from harness.model.systems import NodeConfigs

LEADER_SECONDS = 20.0
"""How long an action on the leader waits until there is one: a broker of Kafka may take half of it to start."""


class NoLeader(PeerFailure):
    """A role needs the leader while there is none."""


@dataclass(slots=True)
class NemesisContext:
    """The run as its nemesis sees it.

    leader() is the leader that the quorum names, None while there is none; nodes_where(name) are the nodes for which a
    condition of single nodes holds. draw(n) is a random number below n, from the plan's seed. A capability is None if
    the hosts or the system lack it; `unavailable` gives the reason, by the field's name. floor is the number of nodes
    that faults must leave running. metadata_log is that of the system (harness.model.systems.SystemKind).

    The rest is what the story has done so far: chosen are the nodes that it has named, cut_off those that the last
    partition isolated, cut_links the links that are cut, skewed the nodes whose clocks were changed. pending are the
    membership changes that were requested and are not done yet, by voter or partition; unanswered are those of them
    whose request got no response. has_reassigned: a reassignment of the voters was requested whose end was not awaited
    yet; awaited_voters are its voters if it was accepted. rpc_rules are the RPC rules in place, rpc_counts the final
    counters of rules that were replaced or removed since the last heal, None if lost.
    """

    nodes: tuple[int, ...]
    links: Links
    processes: Processes
    leader: Callable[[], int | None]
    draw: Callable[[int], int]
    clocks: Clocks | None = None
    rpcs: Rpcs | None = None
    packets: Packets | None = None
    disks: Disks | None = None
    membership: Membership | None = None
    reassignment: QuorumVoters | None = None
    requests: Requests | None = None
    probe: Probe | None = None
    node_configs: NodeConfigs | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)
    nodes_where: Callable[[str], tuple[int, ...]] = lambda _condition: ()
    floor: int = 0
    metadata_log: str | None = None
    cut_off: tuple[int, ...] = ()
    cut_links: frozenset[Link] = frozenset()
    skewed: tuple[int, ...] = ()
    chosen: dict[str, tuple[int, ...]] = field(default_factory=dict)
    pending: dict[str, Change] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)
    has_reassigned: bool = False
    awaited_voters: tuple[int, ...] | None = None
    rpc_rules: tuple[RpcRule, ...] = ()
    rpc_counts: dict[RpcRule, RuleCount | None] = field(default_factory=dict)

    def nodes_in_role(self, who: Who) -> tuple[int, ...]:
        """The nodes that have a role now. Raises PeerFailure if none has it, BadInput for an unknown role."""
        if who.startswith("$"):
            return self._chosen(who)
        if who in (CUT_OFF, SKEWED):
            return self.cut_off if who == CUT_OFF else self.skewed
        if who in (DOWN, PAUSED):
            return self._in_state({DOWN: "gone", PAUSED: "paused"}[who])
        if who == LOST_THE_ELECTION:
            return self.nodes_where("lost_election")
        if who == LEADER:
            return (self.require_leader(),)
        if who == FOLLOWERS:
            return (self._random_follower(),)
        if who in (ONE, MINORITY, MAJORITY, ALL):
            count = len(self.nodes)
            sizes = {ONE: 1, MINORITY: (count - 1) // 2, MAJORITY: count // 2 + 1, ALL: count}
            return tuple(sorted(self.shuffled(self._in_state("running"))[: sizes[who]]))
        return (self._named(who),)

    def require_leader(self) -> int:
        """The leader. Raises NoLeader while no node claims to lead."""
        leader = self.leader()
        if leader is None:
            raise NoLeader("resolving the leader: no node claims to lead")
        return leader

    def require_one(self, f: str, who: Who) -> int:
        """The one node that has a role now. Raises PeerFailure, naming the action, if several or none have it."""
        nodes = self.nodes_in_role(who)
        if len(nodes) != 1:
            raise PeerFailure(f"{f}: expected one node in the role {who}, found {len(nodes)}")
        return nodes[0]

    def require_nodes(self, f: str, links: Iterable[Link]) -> None:
        """Raise BadInput if an action's links have a node that does not exist."""
        unknown = sorted({node for link in links for node in link} - set(self.nodes))
        if unknown:
            raise BadInput(f"{f}: expected nodes 1 to {max(self.nodes)}, found {unknown}")

    def shuffled(self, nodes: Sequence[int] | None = None) -> tuple[int, ...]:
        """All nodes, or these, in a random order from the plan's seed."""
        left = list(self.nodes if nodes is None else nodes)
        return tuple(left.pop(self.draw(len(left))) for _ in range(len(left)))

    def stoppable(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """The first of these nodes, as many as may stop without falling below the floor; and those already stopped."""
        running = self._in_state("running")
        count = max(0, len(running) - self.floor)
        chosen = [node for node in nodes if node in running][:count]
        return tuple(node for node in nodes if node not in running or node in chosen)

    def why_unavailable(self, capability: str) -> str | None:
        """Why these hosts lack a capability; None if they have it."""
        if getattr(self, capability) is not None:
            return None
        return self.unavailable.get(capability, f"hosts of this kind have no {capability}")

    def _random_follower(self) -> int:
        leader = self.require_leader()
        others = [node for node in self._in_state("running") if node != leader]
        if not others:
            raise PeerFailure(f"resolving a follower: no node runs besides the leader, n{leader}")
        return others[self.draw(len(others))]

    def _chosen(self, who: Who) -> tuple[int, ...]:
        name = who.removeprefix("$")
        if name not in self.chosen:
            raise BadInput(f"node {who!r}: no earlier step of the story has chosen nodes by this name")
        return self.chosen[name]

    def _in_state(self, state: str) -> tuple[int, ...]:
        return tuple(node for node in self.nodes if self.processes.state(node) == state)

    def _named(self, who: Who) -> int:
        number = who.removeprefix("n")
        if not number.isdigit() or int(number) not in self.nodes:
            names = ", ".join(f"n{node}" for node in self.nodes)
            roles = ", ".join(ROLES)
            raise BadInput(f"node {who!r}: expected {roles} or one of {names}")
        return int(number)
