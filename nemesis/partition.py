"""Partitions: cuts between any sets of nodes, both ways or one way.

A cut drops packets on directed links; what a shape means in links is worked out by pure functions. After a cut each
link is tried with real traffic: those cut must not pass, all others must.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import permutations
from typing import Any

from harness.model import BadInput, PeerFailure
from harness.model.hosts import Link, UndoRecord
from harness.model.story import LEADER
from nemesis.situation import Situation

NAME = "cut"
WORDS = {"both": "cut off", "out": "cannot send", "in": "cannot receive"}
PARAMETERS = "who (with ways), only (with leader_as), groups, or links"


def undo_record(situation: Situation) -> UndoRecord:
    """Mending every link undoes any cut."""
    return UndoRecord(NAME, "mend-links", {"nodes": list(situation.nodes)})


async def inject(situation: Situation, value: Mapping[str, Any]) -> dict[str, Any]:
    """Cut what the shape says and try every link; returns the links and a label for the report.

    Raises PeerFailure where a cut link still passes or another does not.
    """
    links, label = resolve(situation, value)
    strangers = sorted({node for link in links for node in link} - set(situation.nodes))
    if strangers:
        raise BadInput(f"cut {dict(value)!r}: expected nodes 1 to {max(situation.nodes)}, came {strangers}")
    await situation.links.cut(links)
    await _prove(situation, links)
    return {"links": sorted(list(link) for link in links), "label": label}


async def heal(situation: Situation) -> None:
    """Mend every link and prove that each passes."""
    await situation.links.mend()
    await _prove(situation, frozenset())
    situation.cut_off = ()


async def _prove(situation: Situation, cut: frozenset[Link]) -> None:
    every = frozenset(permutations(situation.nodes, 2))
    passing = {link for link, passes in (await situation.links.passes(every)).items() if passes}
    leaking, dead = sorted(passing & cut), sorted(every - passing - cut)
    if leaking or dead:
        raise PeerFailure(f"proving the cut: links {leaking} pass though cut, links {dead} do not though not cut")


def resolve(situation: Situation, value: Mapping[str, Any]) -> tuple[frozenset[Link], str]:
    """The directed links a shape means, and its label. Raises BadInput for a shape that is none."""
    if "who" in value:
        return _isolate(situation, value)
    if "only" in value:
        role = int(value["leader_as"])
        pairs = swap([tuple(pair) for pair in value["only"]], situation.the_leader(), role)
        shown = " ".join(f"{a}-{b}" for a, b in sorted(pairs))
        return all_but(situation.nodes, pairs), f"only links {shown} are up"
    if "groups" in value:
        shown = " | ".join(",".join(f"n{node}" for node in group) for group in value["groups"])
        return between(value["groups"]), shown
    if "links" in value:
        shown = ", ".join(f"n{a}>n{b}" for a, b in value["links"])
        return frozenset((a, b) for a, b in value["links"]), f"cut {shown}"
    raise BadInput(f"cut {dict(value)!r}: expected {PARAMETERS}")


def _isolate(situation: Situation, value: Mapping[str, Any]) -> tuple[frozenset[Link], str]:
    ways = value.get("ways", "both")
    if ways not in WORDS:
        raise BadInput(f"cut {dict(value)!r}: expected ways to be one of {', '.join(WORDS)}")
    (node,) = situation.whoever_is(value["who"])
    situation.cut_off = (node,)
    title = "leader " if value["who"] == LEADER else ""
    return isolation(situation.nodes, node, ways), f"{title}n{node} {WORDS[ways]}"


def isolation(nodes: Iterable[int], node: int, ways: str) -> frozenset[Link]:
    """The links between one node and all others: both ways, its outgoing or its incoming ones."""
    others = [other for other in nodes if other != node]
    out, into = {(node, other) for other in others}, {(other, node) for other in others}
    return frozenset({"both": out | into, "out": out, "in": into}[ways])


def all_but(nodes: Iterable[int], pairs: Iterable[Link]) -> frozenset[Link]:
    """Every link but those of the given pairs, which stay up both ways."""
    up = {link for a, b in pairs for link in ((a, b), (b, a))}
    return frozenset(set(permutations(nodes, 2)) - up)


def between(groups: Iterable[Iterable[int]]) -> frozenset[Link]:
    """Every link whose ends are in different groups."""
    sets = [set(group) for group in groups]
    return frozenset((a, b) for one, other in permutations(sets, 2) for a in one for b in other)


def swap(pairs: Iterable[tuple[int, ...]], leader: int, role: int) -> set[Link]:
    """The pairs with the leader in the role's place and the role's node in the leader's."""
    exchange = {leader: role, role: leader}
    return {(exchange.get(a, a), exchange.get(b, b)) for a, b in pairs}
