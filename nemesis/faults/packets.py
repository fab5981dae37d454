"""Packet faults: packets between nodes are delayed, lost, doubled, put out of turn, damaged, or bounded in bandwidth.

    Step("packets", {"who": "leader", "direction": "out", "delay_ms": 50, "loss": 0.1})
    (harness.model.faults.packets.packets)

A second action adds its links, and replaces the shape of those that have one. What a shape does is proved by numbered
datagrams on each of its links, and that no other link is touched by some on those; links that are cut are left out. A
proof that fails is tried again, as a machine that was busy for a moment is no fault; a shape too faint to be proved is
refused.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, fields
from itertools import permutations
from typing import Annotated, Any

from pydantic import Field, model_validator

from harness.model import BadInput, PeerFailure
from harness.model.faults.packets import PACKETS, Distribution, Packets, PacketShape, packets
from harness.model.hosts import Link, UndoRecord
from harness.model.story import FOLLOWERS, LEADER, Step, sleep
from nemesis.arguments import Arguments, Direction, Pairs, Probability, Who
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved
from nemesis.faults.packet_proof import UNTOUCHED, misfit, probes_for
from nemesis.faults.partition_shapes import isolation

TRIES = 6
RATE_MAX = 50_000
"""In kbit/s; probes cannot tell a greater bound from none."""


class Treatment(Arguments):
    """Whose links (those of a role's nodes with all others, these, or all), and what befalls their packets."""

    who: Who | None = None
    direction: Direction = "both"
    links: Pairs | None = None
    delay_ms: Annotated[float, Field(ge=0, le=60_000)] = 0
    jitter_ms: Annotated[float, Field(ge=0, le=60_000)] = 0
    distribution: Distribution = "uniform"
    loss: Probability = 0
    duplicate: Probability = 0
    reorder: Probability = 0
    corrupt: Probability = 0
    rate_kbit_per_second: Annotated[float, Field(ge=64, le=RATE_MAX)] | None = None

    @model_validator(mode="after")
    def _affects_something(self) -> Treatment:
        if self.who is not None and self.links is not None:
            raise ValueError("expected who or links, not both")
        shape = _shape(self.model_dump())
        if shape == PacketShape(distribution=self.distribution):
            raise ValueError("expected a delay, loss, duplicate, corrupt or rate: this lets packets pass as they are")
        try:
            probes_for(shape)
        except BadInput as error:
            raise ValueError(str(error)) from error
        return self


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The directed links that are meant just now, and their shape. Raises BadInput for what cannot be proved."""
    shape, links = _shape(value), _links(context, value)
    probes_for(shape)
    strangers = sorted({node for link in links for node in link} - set(context.nodes))
    if strangers:
        raise BadInput(f"{f} {dict(value)!r}: expected nodes 1 to {max(context.nodes)}, came {strangers}")
    return {
        "links": sorted(list(link) for link in links),
        "shape": asdict(shape),
        "label": _label(context, links, shape),
    }


def undo(f: str, resolved: Resolved) -> UndoRecord | None:
    """Clearing every link undoes any shape."""
    return UndoRecord(f, "clear-packets", {"links": resolved["links"]})


async def inject(context: NemesisContext, _f: str, resolved: Resolved) -> dict[str, Any]:
    """Give the links their shape and prove it; returns links, shape, technique and a label.

    Raises PeerFailure where probes come to something else, on these links or on others.
    """
    shaping = _packets(context)
    await shaping.shape(_pairs(resolved), PacketShape(**resolved["shape"]))
    await _prove(context, shaping)
    return {**resolved, "technique": shaping.technique}


async def heal(context: NemesisContext) -> None:
    """Clear all links and prove that packets pass as they are; nothing where no link has a shape."""
    if context.packets is None or not context.packets.shapes:
        return
    await context.packets.clear()
    await _prove(context, context.packets)


async def _prove(context: NemesisContext, shaping: Packets) -> None:
    """Read every link that is not cut until all fit, a few times at most."""
    problem: str | None = None
    for _ in range(TRIES):
        problem = await _misfit(context, shaping)
        if problem is None:
            return
    raise PeerFailure(f"proving packets by {shaping.technique}, {TRIES} times: {problem}")


async def _misfit(context: NemesisContext, shaping: Packets) -> str | None:
    """What the first link that does not fit shows.

    Links with bounded bandwidth are read by themselves: what queues before one would look like a delay of others.
    """
    shapes = dict.fromkeys(sorted(set(permutations(context.nodes, 2)) - context.cut_links), UNTOUCHED)
    shapes |= {link: shape for link, shape in shaping.shapes.items() if link in shapes}
    bounded = [link for link, shape in shapes.items() if shape.rate_kbit_per_second is not None]
    for links in ([link for link in shapes if link not in bounded], bounded):
        readings = await shaping.read({link: probes_for(shapes[link]) for link in links}) if links else {}
        for (source, target), reading in readings.items():
            problem = misfit(shapes[source, target], reading)
            if problem is not None:
                return f"n{source}>n{target}: {problem}"
    return None


def _packets(context: NemesisContext) -> Packets:
    assert context.packets is not None, "a fault that is missing is not carried out"
    return context.packets


def _shape(value: Mapping[str, Any]) -> PacketShape:
    return PacketShape(**{each.name: value[each.name] for each in fields(PacketShape) if each.name in value})


def _links(context: NemesisContext, value: Mapping[str, Any]) -> frozenset[Link]:
    if value.get("links") is not None:
        return frozenset((a, b) for a, b in value["links"])
    if value.get("who") is None:
        return frozenset(permutations(context.nodes, 2))
    nodes, direction = context.nodes_in_role(value["who"]), value.get("direction", "both")
    return frozenset[Link]().union(*(isolation(context.nodes, node, direction) for node in nodes))


def _pairs(resolved: Resolved) -> list[Link]:
    return [(source, target) for source, target in resolved["links"]]


def _label(context: NemesisContext, links: frozenset[Link], shape: PacketShape) -> str:
    everywhere = len(links) == len(context.nodes) * (len(context.nodes) - 1)
    where = "all links" if everywhere else " ".join(f"n{a}>n{b}" for a, b in sorted(links))
    return f"{', '.join(_words(shape))} on {where}"


def _words(shape: PacketShape) -> list[str]:
    words = [f"{getattr(shape, name):.0%} {name}" for name in ("loss", "duplicate", "reorder", "corrupt")]
    words = [word for word in words if not word.startswith("0%")]
    if shape.delay_ms:
        jitter = f"±{shape.jitter_ms:g} " if shape.jitter_ms else ""
        words.insert(0, f"{shape.delay_ms:g} {jitter}ms delay")
    rate = shape.rate_kbit_per_second
    return words if rate is None else [*words, f"{rate:g} kbit/s"]


def sample(random_: random.Random, _nodes: int) -> list[Step]:
    """Slow, lossy, doubling, disorderly, damaging or narrow links: of the leader, of a follower or of all."""
    delay_ms = float(random_.choice([10, 50, 150, 400]))
    jitter = random_.choice([0, 0.1, 0.4]) * delay_ms
    shape = random_.choice(
        [
            PacketShape(delay_ms, jitter, random_.choice(["uniform", "normal", "pareto"])),
            PacketShape(loss=random_.choice([0.05, 0.2, 0.5])),
            PacketShape(delay_ms=delay_ms, reorder=0.25),
            PacketShape(duplicate=0.2, loss=0.1),
            PacketShape(corrupt=random_.choice([0.05, 0.2])),
            PacketShape(rate_kbit_per_second=random_.choice([256, 1000, 8000])),
        ]
    )
    return [packets(shape, random_.choice([LEADER, FOLLOWERS, None]), random_.choice(["both", "both", "out", "in"]))]


TRIED = (
    PacketShape(delay_ms=30, jitter_ms=10),
    PacketShape(loss=0.2),
    PacketShape(duplicate=0.3),
    PacketShape(delay_ms=30, reorder=0.3),
    PacketShape(corrupt=0.2),
    PacketShape(rate_kbit_per_second=1000),
)

FAULT = Fault(
    name=PACKETS,
    summary="packets are delayed, dropped, duplicated, reordered or corrupted, or bandwidth is limited",
    actions={PACKETS: Action(Treatment)},
    unavailable=lambda context, _action: context.why_unavailable("packets"),
    resolve=resolve,
    undo=undo,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=10,
    trials=tuple((packets(shape, "n1", "out"), sleep(0.2)) for shape in TRIED),
)
