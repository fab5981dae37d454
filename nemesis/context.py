"""What a fault may use: the hosts' capabilities, who leads, and the plan's draws; and whom a role means just now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.model import BadInput, PeerFailure
from harness.model.faults.disks import Disks
from harness.model.faults.membership import Change, Membership
from harness.model.faults.packets import Packets
from harness.model.faults.rpc import Rpcs
from harness.model.hosts import Clocks, Link, Links, Processes
from harness.model.story import (
    ALL,
    CUT_OFF,
    DOWN,
    FOLLOWERS,
    LEADER,
    MAJORITY,
    MINORITY,
    ONE,
    PAUSED,
    ROLES,
    SKEWED,
    Who,
)
from harness.model.systems import NodeConfigs


class NoLeader(PeerFailure):
    """A role that speaks of the leader, while there is none."""


@dataclass(slots=True)
class NemesisContext:
    """The run as its nemesis sees it.

    leader() names whom the quorum holds for its leader, None while there is none; draw(n) is a number below n from the
    plan's seed. cut_off is who the last cut isolated, cut_links what is cut, skewed whose clocks were moved. A
    capability that may be None is so where these hosts lack it, and `unavailable` says why, by its name here. floor is
    how
    many nodes a fault of processes must leave running, pending what was asked of the membership and is
    yet to be seen, by voter or partition, unanswered those of them whose request had no answer.
    """

    nodes: tuple[int, ...]
    links: Links
    processes: Processes
    leader: Callable[[], int | None]
    draw: Callable[[int], int]
    cut_off: tuple[int, ...] = field(default=())
    clocks: Clocks | None = None
    rpcs: Rpcs | None = None
    packets: Packets | None = None
    disks: Disks | None = None
    skewed: tuple[int, ...] = ()
    cut_links: frozenset[Link] = frozenset()
    floor: int = 0
    membership: Membership | None = None
    node_configs: NodeConfigs | None = None
    pending: dict[str, Change] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)
    unavailable: Mapping[str, str] = field(default_factory=dict)

    def nodes_in_role(self, who: Who) -> tuple[int, ...]:
        """The nodes a role means now. Raises PeerFailure where nobody fits, BadInput for an unknown role."""
        if who in (CUT_OFF, SKEWED):
            return self.cut_off if who == CUT_OFF else self.skewed
        if who in (DOWN, PAUSED):
            return self._in_state({DOWN: "gone", PAUSED: "paused"}[who])
        if who == LEADER:
            return (self.the_leader(),)
        if who == FOLLOWERS:
            return (self._a_follower(),)
        if who in (ONE, MINORITY, MAJORITY, ALL):
            count = len(self.nodes)
            sizes = {ONE: 1, MINORITY: (count - 1) // 2, MAJORITY: count // 2 + 1, ALL: count}
            return tuple(sorted(self.shuffled(self._in_state("running"))[: sizes[who]]))
        return (self._named(who),)

    def the_leader(self) -> int:
        """Raises PeerFailure while no node claims to lead."""
        leader = self.leader()
        if leader is None:
            raise NoLeader("choosing the leader: no node claims to lead just now")
        return leader

    def shuffled(self, nodes: Sequence[int] | None = None) -> tuple[int, ...]:
        """All nodes, or these, in an order from the plan's seed."""
        left = list(self.nodes if nodes is None else nodes)
        return tuple(left.pop(self.draw(len(left))) for _ in range(len(left)))

    def keeping_the_floor(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """As many of these nodes, from the first, as may stop running, those that do not run already among them."""
        running = self._in_state("running")
        spare = max(0, len(running) - self.floor)
        taken = [node for node in nodes if node in running][:spare]
        return tuple(node for node in nodes if node not in running or node in taken)

    def why_unavailable(self, capability: str) -> str | None:
        """None where these hosts have a capability, else the reason."""
        if getattr(self, capability) is not None:
            return None
        return self.unavailable.get(capability, f"hosts of this kind have no {capability}")

    def _a_follower(self) -> int:
        leader = self.the_leader()
        others = [node for node in self._in_state("running") if node != leader]
        if not others:
            raise PeerFailure(f"choosing a follower: no node runs beside n{leader}, which leads")
        return others[self.draw(len(others))]

    def _in_state(self, state: str) -> tuple[int, ...]:
        return tuple(node for node in self.nodes if self.processes.state(node) == state)

    def _named(self, who: Who) -> int:
        number = who.removeprefix("n")
        if not number.isdigit() or int(number) not in self.nodes:
            names = ", ".join(f"n{node}" for node in self.nodes)
            roles = ", ".join(ROLES)
            raise BadInput(f"node {who!r}: expected {roles} or one of {names}")
        return int(number)
