"""Partitions between any sets of nodes, in both directions or one.

A cut drops packets on directed links; nemesis.faults.partition_shapes computes the links of a shape. After a cut, real
traffic on every link verifies it: cut links must not pass packets, all others must.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from harness.model import PeerFailure
from harness.model.hosts import Link, UndoRecord
from harness.model.story import FOLLOWERS, LEADER, SHAPES, Shape, Step, cut, partition, sleep, split, swizzle
from nemesis.arguments import Arguments, Direction, Node, OnNodes, Pairs, Who
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved
from nemesis.faults.partition_shapes import all_but, between, bridge, halves, isolation, majorities_ring, one_way, swap

WORDS = {"both": "cut off", "out": "cannot send", "in": "cannot receive"}


class Isolation(OnNodes):
    """Cut each node of the role off from all others."""

    direction: Direction = "both"


class Only(Arguments):
    """Keep only these links up. Node numbers assume that node leader_as leads; the leader is exchanged with it."""

    only: Pairs
    leader_as: Node


class Groups(Arguments):
    """Cut every link between nodes of different groups."""

    groups: Annotated[list[list[Node]], Field(min_length=2)]


class DirectedLinks(Arguments):
    """Cut, or heal, these directed links."""

    links: Pairs


class Shaped(Arguments):
    """Cut a shape of the whole network."""

    shape: Shape
    direction: Direction = "both"


_KINDS = ("who", "only", "groups", "links", "shape")


def _kind_of(value: Any) -> str | None:
    """Which kind of cut the arguments, as JSON or as a model, describe; None if none."""
    names = value if isinstance(value, dict) else getattr(type(value), "model_fields", ())
    return next((kind for kind in _KINDS if kind in names), None)


Cut = Annotated[
    Annotated[Isolation, Tag("who")]
    | Annotated[Only, Tag("only")]
    | Annotated[Groups, Tag("groups")]
    | Annotated[DirectedLinks, Tag("links")]
    | Annotated[Shaped, Tag("shape")],
    Discriminator(
        _kind_of,
        custom_error_type="shape",
        custom_error_message=f"expected one of the shapes {', '.join(_KINDS)}",
    ),
]


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The directed links of a shape, and its label. Raises BadInput for a node that does not exist."""
    links, label, cut_off = _resolve(context, value)
    context.require_nodes(f, links)
    if f == "heal_links":
        label = f"heal {label.removeprefix('cut ')}"
    return {"links": sorted(list(link) for link in links), "label": label, "cut_off": list(cut_off)}


def undo(f: str, resolved: Resolved) -> UndoRecord | None:
    """Undone by healing the links; None if the action itself heals."""
    return UndoRecord(f, "heal-links", {"links": resolved["links"]}) if f == "cut" else None


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Cut or heal the links and verify every link; returns the links and a label for the report.

    Raises PeerFailure if a cut link still passes packets or another link does not.
    """
    links = frozenset((a, b) for a, b in resolved["links"])
    if f == "heal_links":
        await context.links.heal(links)
        context.cut_links -= links
    else:
        await context.links.cut(links)
        context.cut_links |= links
    if resolved["cut_off"]:
        context.cut_off = tuple(resolved["cut_off"])
    await _verify(context)
    return {"links": resolved["links"], "label": resolved["label"]}


async def heal(context: NemesisContext) -> None:
    """Heal every link and verify that each passes packets."""
    await context.links.heal()
    context.cut_links, context.cut_off = frozenset(), ()
    await _verify(context)


async def _verify(context: NemesisContext) -> None:
    every = frozenset(permutations(context.nodes, 2))
    passing = {link for link, passes in (await context.links.passes(every)).items() if passes}
    leaking, dead = sorted(passing & context.cut_links), sorted(every - passing - context.cut_links)
    problems = [f"{_arrows(leaking)} still pass packets after the cut"] if leaking else []
    problems += [f"{_arrows(dead)} pass no packets, expected all links that are not cut to pass them"] if dead else []
    if problems:
        raise PeerFailure(f"verifying links: {'; '.join(problems)}")


def _resolve(context: NemesisContext, value: Mapping[str, Any]) -> tuple[frozenset[Link], str, tuple[int, ...]]:
    """The directed links of a shape, its label, and the nodes that it isolates."""
    if "who" in value:
        return _isolated(context, value["who"], value["direction"])
    if "only" in value:
        pairs = swap([tuple(pair) for pair in value["only"]], context.require_leader(), int(value["leader_as"]))
        shown = " ".join(f"{a}-{b}" for a, b in sorted(pairs))
        return all_but(context.nodes, pairs), f"only links {shown} are up", ()
    if "groups" in value:
        return between(value["groups"]), _sides(value["groups"]), ()
    if "links" in value:
        links = frozenset((a, b) for a, b in value["links"])
        return links, f"cut {_arrows(sorted(links))}", ()
    return _shaped(context, value["shape"], value["direction"])


def _isolated(context: NemesisContext, who: Who, direction: Direction) -> tuple[frozenset[Link], str, tuple[int, ...]]:
    nodes = context.nodes_in_role(who)
    title = "leader " if who == LEADER else ""
    return isolation(context.nodes, nodes, direction), f"{title}{_names(nodes)} {WORDS[direction]}", nodes


def _shaped(
    context: NemesisContext, shape: Shape, direction: Direction
) -> tuple[frozenset[Link], str, tuple[int, ...]]:
    shuffled = context.shuffled()
    if shape == "primaries":
        return _isolated(context, LEADER, direction)
    if shape == "minority":
        few = sorted(shuffled[: (len(shuffled) - 1) // 2])
        rest = sorted(set(context.nodes) - set(few))
        return one_way(few, rest, direction), f"{_sides([few, rest])} ({WORDS[direction]})", ()
    if shape == "majorities ring":
        return majorities_ring(shuffled), f"majorities ring {' '.join(f'n{node}' for node in shuffled)}", ()
    order = context.nodes if shape == "halves" else shuffled
    if shape == "bridge":
        middle = len(order) // 2
        sides = [sorted(order[:middle]), sorted(order[middle + 1 :])]
        return bridge(order, direction), f"{_sides(sides)}, n{order[middle]} sees both", ()
    sides = [sorted(order[: len(order) // 2]), sorted(order[len(order) // 2 :])]
    return halves(order, direction), f"{_sides(sides)} ({WORDS[direction]})", ()


def _sides(groups: Sequence[Sequence[int]]) -> str:
    return " | ".join(",".join(f"n{node}" for node in group) for group in groups)


def _arrows(links: Sequence[Link]) -> str:
    return ", ".join(f"n{a}>n{b}" for a, b in links)


def _names(nodes: Sequence[int]) -> str:
    return ", ".join(f"n{node}" for node in nodes)


def sample(random_source: random.Random, nodes: int) -> list[Step]:
    """Cut off the leader or a follower, in both directions or one; or cut into halves, a shape, or a swizzle."""
    direction: Direction = random_source.choice(["both", "both", "out", "in"])
    shuffled = random_source.sample(range(1, nodes + 1), nodes)
    first = shuffled[: (nodes + 1) // 2]
    shapes = [[partition(shape, direction)] for shape in SHAPES if shape != "halves"]
    sequences = [
        [cut(LEADER, direction)],
        [cut(FOLLOWERS, direction)],
        [split(shuffled[: nodes // 2], shuffled[nodes // 2 :])],
        random_source.choice(shapes),
        swizzle(first, random_source.sample(first, len(first)), nodes, 0.5),
    ]
    return random_source.choice(sequences)


FAULT = Fault(
    name="partition",
    summary="links drop all packets, in both directions or one: of one node, halves, a ring, a bridge, or any links",
    actions={"cut": Action(Cut), "heal_links": Action(DirectedLinks, ends=frozenset({"cut"}))},
    resolve=resolve,
    undo=undo,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=20,
    trials=(
        (cut("n1"), sleep(0.2)),
        (cut("n1", "out"), sleep(0.2)),
        (partition("bridge"), sleep(0.2)),
        (*swizzle([1, 2], [2, 1], 3, 0.2),),
    ),
)
