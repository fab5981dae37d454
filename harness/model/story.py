"""The nemesis's script as values: a story is a sequence of steps that can be checked against a KIP.

    story = [wait_until(LEADER_KNOWN), cut(one(FOLLOWERS)), sleep(seconds(12)), heal(), sleep(seconds(5))]

A step is the name of a nemesis operation and its JSON arguments, and is stored in the plan as it is. `who` selects
nodes by role; the role is resolved when the step runs:

- `leader`: the leader that the quorum reports; `follower`: another node, chosen by the plan's seed;
- `one`, `minority`, `majority`, `all`: that many of the running nodes;
- `cut off`, `down`, `paused`, `skewed`: the nodes that are partitioned, stopped, paused or have moved clocks;
- `lost the election`: the nodes that follow the winner of an election in which they were candidates;
- `n3`: node 3;
- `$victim`: the nodes that an earlier step has chosen by this name (choose).

Contains steps and roles. Does not contain conditions (harness.model.conditions), the steps of RPC, packet and disk
faults (harness.model.faults), or how a step is executed (nemesis).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from harness.model.conditions import Condition
from harness.model.hosts import Clock
from harness.model.nemesis_ops import AWAIT, CHOOSE, HEAL, SLEEP

LEAD: Final = "lead"
MARK: Final = "mark"
STORY_BEGINS: Final = "story"
FINAL_READS: Final = "final"
CHANGE_VERSION: Final = "change_version"
STOP_CLIENTS: Final = "stop_clients"

Who = str
"""Selects nodes: one of ROLES, n1, n2, …, or a name that was chosen, e.g. $victim."""

Direction = Literal["both", "out", "in"]

LEADER: Final[Who] = "leader"
FOLLOWERS: Final[Who] = "follower"
CUT_OFF: Final[Who] = "cut off"
DOWN: Final[Who] = "down"
PAUSED: Final[Who] = "paused"
SKEWED: Final[Who] = "skewed"
LOST_THE_ELECTION: Final[Who] = "lost the election"
ONE: Final[Who] = "one"
MINORITY: Final[Who] = "minority"
MAJORITY: Final[Who] = "majority"
ALL: Final[Who] = "all"
ROLES: Final = (LEADER, FOLLOWERS, ONE, MINORITY, MAJORITY, ALL, CUT_OFF, DOWN, PAUSED, SKEWED, LOST_THE_ELECTION)

Shape = Literal["halves", "random halves", "majorities ring", "bridge", "minority", "primaries"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)

AWAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Step:
    """One nemesis operation: f is its name, value its arguments."""

    f: str
    value: Any = None


def seconds(number: float) -> float:
    """The number itself; it states the unit where a story is written."""
    return number


def wait_until(condition: Condition, within: float = AWAIT_SECONDS) -> Step:
    """Wait until a condition holds. If it does not hold in time, the run is unknown."""
    return Step(AWAIT, {"condition": condition.to_json(), "within_seconds": within})


def when(condition: Condition, within: float) -> Step:
    """Go on as soon as a condition holds, or after this many seconds if it does not.

    docs/faults.md has the measured reaction times, and how to hold a shorter window open.
    """
    return Step(AWAIT, {"condition": condition.to_json(), "within_seconds": within, "is_required": False})


def sleep(duration_seconds: float) -> Step:
    """Wait; active faults stay in place."""
    return Step(SLEEP, duration_seconds)


def one(who: Who) -> Who:
    """One node of the role; roles such as `follower` select one node already."""
    return who


def choose(name: str, who: Who) -> Step:
    """Give the nodes that have a role now a name, e.g. victim; later steps select them by it: cut("$victim")."""
    return Step(CHOOSE, {"name": name, "who": who})


def cut(who: Who, direction: Direction = "both") -> Step:
    """Cut the links between a node and all others: both directions, or only what it sends (out) or receives (in)."""
    return Step("cut", {"who": who, "direction": direction})


def only_links(pairs: Iterable[tuple[int, int]], leader_as: int) -> Step:
    """Cut all links except these, in both directions. The leader takes the place of node leader_as in pairs."""
    return Step("cut", {"only": sorted(sorted(pair) for pair in pairs), "leader_as": leader_as})


def split(*groups: Iterable[int]) -> Step:
    """Cut all links between nodes of different groups."""
    return Step("cut", {"groups": [sorted(group) for group in groups]})


def cut_links(links: Iterable[tuple[int, int]]) -> Step:
    """Cut these directed links."""
    return Step("cut", {"links": sorted(list(link) for link in links)})


def both_ways(*pairs: tuple[int, int]) -> list[tuple[int, int]]:
    """The links of each pair of nodes in both directions, for cut_links and heal_links."""
    return [link for a, b in pairs for link in ((a, b), (b, a))]


def partition(shape: Shape, direction: Direction = "both") -> Step:
    """Partition the network, as Jepsen's nemesis does.

    halves split by node number, random halves at random; in a majorities ring each node sees a different majority; a
    bridge is two halves joined by one node; minority isolates a random minority, primaries the leader.
    direction "out" or "in" cuts only what the first part sends or receives; a ring has no parts.
    """
    return Step("cut", {"shape": shape, "direction": direction})


def heal_links(links: Iterable[tuple[int, int]]) -> Step:
    """Restore these directed links. Other cuts stay."""
    return Step("heal_links", {"links": sorted(list(link) for link in links)})


def swizzle(order: Sequence[int], healing: Sequence[int], nodes: int, pause_seconds: float) -> list[Step]:
    """Isolate nodes one by one in one order, then restore them one by one in another."""
    isolated: set[int] = set()
    story: list[Step] = []
    for node in order:
        isolated.add(node)
        story += [cut_links(_links_of(node, range(1, nodes + 1))), sleep(pause_seconds)]
    for node in healing:
        isolated.remove(node)
        story += [heal_links(_links_of(node, set(range(1, nodes + 1)) - isolated)), sleep(pause_seconds)]
    return story


def _links_of(node: int, others: Iterable[int]) -> list[tuple[int, int]]:
    return both_ways(*((node, other) for other in others if other != node))


def heal() -> Step:
    """End all active faults: restore links, reset clocks, resume paused nodes, start stopped ones."""
    return Step(HEAL)


def kill(who: Who) -> Step:
    """Kill the node (SIGKILL)."""
    return Step("kill", {"who": who})


def stop(who: Who) -> Step:
    """Stop the node (SIGTERM) and wait until its process is gone."""
    return Step("stop", {"who": who})


def start(who: Who = DOWN) -> Step:
    """Start nodes that are down."""
    return Step("start", {"who": who})


def pause(who: Who) -> Step:
    """Pause the node (SIGSTOP)."""
    return Step("pause", {"who": who})


def resume(who: Who = PAUSED) -> Step:
    """Resume the node (SIGCONT)."""
    return Step("resume", {"who": who})


def skew(who: Who, offset_seconds: float, clocks: Iterable[Clock] = ("realtime",)) -> Step:
    """Set the node's clocks ahead of the true time, or behind it if offset_seconds is negative."""
    return Step("skew", {"who": who, "offset_seconds": offset_seconds, "clocks": list(clocks)})


def drift(who: Who, rate: float, clocks: Iterable[Clock] = ("realtime", "monotonic")) -> Step:
    """Run the node's clocks at this rate, from their current value: 1 is true, 0.2 five times too slow."""
    return Step("drift", {"who": who, "rate": rate, "clocks": list(clocks)})


def reset_clock(who: Who = SKEWED) -> Step:
    """Set the node's clocks to the true time."""
    return Step("reset_clock", {"who": who})


def restart(who: Who) -> list[Step]:
    """Stop the node (SIGTERM) and start it."""
    return [stop(who), start()]


def lead(who: Who, is_required: bool = True) -> Step:
    """Make the node the leader. At the beginning of a story this is preparation: quantities do not count it.

    If it is not required, the story goes on when another node has won six elections.
    """
    return Step(LEAD, {"who": who} if is_required else {"who": who, "is_required": False})


def configure(who: Who, switches: Mapping[str, str]) -> Step:
    """Stop the node, change these properties, and start it."""
    return Step("configure", {"who": who, "switches": dict(switches)})


def change_version(who: Who, system: str) -> Step:
    """Stop the node and start it with another release, e.g. kafka:4.3.1."""
    return Step(CHANGE_VERSION, {"who": who, "system": system})


def crash_loop(who: Who, times: int, up_seconds: float) -> list[Step]:
    """Kill and start the node repeatedly, with up_seconds between a start and the next kill."""
    return [kill(who), start(), sleep(up_seconds)] * times


def strobe(who: Who, offset_seconds: float, period_seconds: float, times: int) -> list[Step]:
    """Move the realtime clock by an offset and, half a period later, back, repeatedly."""
    half = sleep(period_seconds / 2)
    return [skew(who, offset_seconds), half, skew(SKEWED, 0), half] * times


def stop_clients() -> Step:
    """End the clients' operations here; the rest of the story runs without load, and then come the final reads.

    What the clients wrote before is then the last that was written.
    """
    return Step(STOP_CLIENTS)


def mark(text: str) -> Step:
    """A row in the history that marks the beginning of a part of the story."""
    return Step(MARK, text)
