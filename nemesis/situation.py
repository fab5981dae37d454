"""What a fault may use: the hosts' capabilities, who leads, and the plan's draws; and whom a role means just now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.model import BadInput, PeerFailure
from harness.model.disks import Disks
from harness.model.hosts import Clocks, Links, Processes
from harness.model.packets import Packets
from harness.model.rpc import Rpcs
from harness.model.story import CUT_OFF, DOWN, FOLLOWERS, LEADER, PAUSED, SKEWED, Who


@dataclass(slots=True)
class Situation:
    """The run as its nemesis sees it.

    leader() names whom the quorum holds for its leader, None while there is none; draw(n) is a number below n from the
    plan's seed. cut_off is who the last cut isolated, skewed whose clocks were moved. clocks and rpcs are None where
    hosts cannot move clocks, or no proxy stands between the nodes.
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

    def whoever_is(self, who: Who) -> tuple[int, ...]:
        """The nodes a role means now. Raises PeerFailure where nobody fits, BadInput for an unknown role."""
        if who in (CUT_OFF, SKEWED):
            return self.cut_off if who == CUT_OFF else self.skewed
        if who in (DOWN, PAUSED):
            return self._in_state({DOWN: "gone", PAUSED: "paused"}[who])
        if who == LEADER:
            return (self.the_leader(),)
        if who == FOLLOWERS:
            return (self._a_follower(),)
        return (self._named(who),)

    def the_leader(self) -> int:
        """Raises PeerFailure while no node claims to lead."""
        leader = self.leader()
        if leader is None:
            raise PeerFailure("choosing the leader: no node claims to lead just now")
        return leader

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
            raise BadInput(f"node {who!r}: expected leader, follower, cut off, down, paused, skewed or one of {names}")
        return int(number)
