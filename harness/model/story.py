"""What the nemesis is to do, as values: a story is a sequence of steps that a reviewer can check against a KIP.

A step is a deed's name and its JSON arguments, so that a plan on disk holds the story itself. Who is meant is said by
role and settled when the step is carried out: `leader` is whom the quorum names then, `follower` any other node (the
plan's seed draws), `one`, `minority`, `majority` and `all` so many of those that run, `n3` node 3, `cut off`, `down`,
`paused` and `skewed` (whose clocks were moved) whoever is so now.

    story = [once(LEADER_KNOWN), cut(one(FOLLOWERS)), for_(seconds(12)), heal(), for_(seconds(5))]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from harness.model.conditions import Condition
from harness.model.hosts import Clock
from harness.model.nemesis_ops import AWAIT, HEAL, SLEEP

MARK: Final = "mark"
STORY_BEGINS: Final = "story"
FINAL_READS: Final = "final"
CHANGE_VERSION: Final = "change_version"

Who = str
Direction = Literal["both", "out", "in"]

LEADER: Final[Who] = "leader"
FOLLOWERS: Final[Who] = "follower"
CUT_OFF: Final[Who] = "cut off"
DOWN: Final[Who] = "down"
PAUSED: Final[Who] = "paused"
SKEWED: Final[Who] = "skewed"
ONE: Final[Who] = "one"
MINORITY: Final[Who] = "minority"
MAJORITY: Final[Who] = "majority"
ALL: Final[Who] = "all"
ROLES: Final = (LEADER, FOLLOWERS, ONE, MINORITY, MAJORITY, ALL, CUT_OFF, DOWN, PAUSED, SKEWED)

Shape = Literal["halves", "random halves", "majorities ring", "bridge", "minority", "primaries"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)

AWAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Step:
    """One deed of the nemesis: f names it, value holds its arguments."""

    f: str
    value: Any = None


def seconds(number: float) -> float:
    """So that durations read as they are meant."""
    return number


def once(condition: Condition, within: float = AWAIT_SECONDS) -> Step:
    """Wait until a condition holds; a run in which it does not hold in time is unknown."""
    return Step(AWAIT, {"condition": condition.to_json(), "within_seconds": within})


def for_(duration_seconds: float) -> Step:
    """Leave things as they are for a while."""
    return Step(SLEEP, duration_seconds)


def one(who: Who) -> Who:
    """A single node of that role."""
    return who


def cut(who: Who, direction: Direction = "both") -> Step:
    """Cut the links between a node and all others: both ways, or only what it sends (out) or receives (in)."""
    return Step("cut", {"who": who, "direction": direction})


def only_links(pairs: Iterable[tuple[int, int]], leader_as: int) -> Step:
    """Leave only these links up, both ways. Node numbers are roles: the leader plays leader_as."""
    return Step("cut", {"only": sorted(sorted(pair) for pair in pairs), "leader_as": leader_as})


def split(*groups: Iterable[int]) -> Step:
    """Cut every link between nodes of different groups."""
    return Step("cut", {"groups": [sorted(group) for group in groups]})


def cut_links(links: Iterable[tuple[int, int]]) -> Step:
    """Cut these directed links."""
    return Step("cut", {"links": sorted(list(link) for link in links)})


def partition(shape: Shape, direction: Direction = "both") -> Step:
    """Cut the network into a shape: halves in order of number or at random, a ring in which each node sees another
    majority, two halves with one node as a bridge, a random minority, or whoever claims to lead (primaries).

    One way of a shape cuts only what its first part sends (out) or receives (in); a ring has no parts.
    """
    return Step("cut", {"shape": shape, "direction": direction})


def heal_links(links: Iterable[tuple[int, int]]) -> Step:
    """Let these directed links pass again, whatever else is cut."""
    return Step("heal_links", {"links": sorted(list(link) for link in links)})


def swizzle(order: Sequence[int], healing: Sequence[int], nodes: int, pause_seconds: float) -> list[Step]:
    """Cut nodes off one by one in one order, then let them come back one by one in another."""
    apart: set[int] = set()
    story: list[Step] = []
    for node in order:
        apart.add(node)
        story += [cut_links(_around(node, range(1, nodes + 1))), for_(pause_seconds)]
    for node in healing:
        apart.remove(node)
        story += [heal_links(_around(node, set(range(1, nodes + 1)) - apart)), for_(pause_seconds)]
    return story


def _around(node: int, others: Iterable[int]) -> list[tuple[int, int]]:
    return [link for other in others if other != node for link in ((node, other), (other, node))]


def heal() -> Step:
    """Undo every fault that is in place: mend links, reset clocks, resume the paused, start the dead."""
    return Step(HEAL)


def kill(who: Who) -> Step:
    """SIGKILL."""
    return Step("kill", {"who": who})


def stop(who: Who) -> Step:
    """SIGTERM, and wait for the end."""
    return Step("stop", {"who": who})


def start(who: Who = DOWN) -> Step:
    """Start again what is down."""
    return Step("start", {"who": who})


def pause(who: Who) -> Step:
    """SIGSTOP."""
    return Step("pause", {"who": who})


def resume(who: Who = PAUSED) -> Step:
    """SIGCONT."""
    return Step("resume", {"who": who})


def skew(who: Who, offset_seconds: float, clocks: Iterable[Clock] = ("realtime",)) -> Step:
    """The node's clocks show so much more (or less) than the true time."""
    return Step("skew", {"who": who, "offset_seconds": offset_seconds, "clocks": list(clocks)})


def drift(who: Who, rate: float, clocks: Iterable[Clock] = ("realtime", "monotonic")) -> Step:
    """The node's clocks go at this rate from what they show now on: 1 is as they should, 0.2 five times too slow."""
    return Step("drift", {"who": who, "rate": rate, "clocks": list(clocks)})


def reset_clock(who: Who = SKEWED) -> Step:
    """The node's clocks show the true time again."""
    return Step("reset_clock", {"who": who})


def restart(who: Who) -> list[Step]:
    """SIGTERM, the end, and a start."""
    return [stop(who), start()]


def configure(who: Who, switches: Mapping[str, str]) -> Step:
    """Stop the node, change these of its properties, and start it."""
    return Step("configure", {"who": who, "switches": dict(switches)})


def change_version(who: Who, system: str) -> Step:
    """Stop the node and start it as another release, e.g. kafka:4.3.1."""
    return Step(CHANGE_VERSION, {"who": who, "system": system})


def crash_loop(who: Who, times: int, up_seconds: float) -> list[Step]:
    """So many times a SIGKILL, a start, and a short life."""
    return [kill(who), start(), for_(up_seconds)] * times


def strobe(who: Who, offset_seconds: float, period_seconds: float, times: int) -> list[Step]:
    """So many times a leap of the realtime clock and, half a period later, one back."""
    half = for_(period_seconds / 2)
    return [skew(who, offset_seconds), half, skew(SKEWED, 0), half] * times


def mark(text: str) -> Step:
    """A row in the history that says where a part of the story begins."""
    return Step(MARK, text)
