"""Packet faults: packets are delayed, dropped, duplicated, reordered or corrupted, or bandwidth is limited.

    Step("packets", {"who": "leader", "direction": "out", "delay_ms": 50, "loss": 0.1})
    (harness.model.faults.packets.packets)

A second action adds its links, and replaces the shape of links that already have one. Numbered datagrams (probes) on
every link verify the shape of shaped links and the absence of any effect on others; cut links are skipped. A failed
verification is retried, because a machine may be busy for a moment. A shape too weak to be verified is refused.
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
from nemesis.faults.packet_verification import UNSHAPED, mismatch, probe_count
from nemesis.faults.partition_shapes import isolation

TRIES = 6
RATE_MAX = 50_000
"""In kbit/s; probes cannot distinguish a higher limit from none."""


class Shaping(Arguments):
    """Which links (those of a role's nodes, these links, or all), and the shape of their packets."""

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
    def _affects_something(self) -> Shaping:
        if self.who is not None and self.links is not None:
            raise ValueError("expected who or links, not both")
        shape = _shape(self.model_dump())
        if shape == PacketShape(distribution=self.distribution):
            raise ValueError("expected a delay, loss, duplicate, corrupt or rate: this shape has no effect")
        try:
            probe_count(shape)
        except BadInput as error:
            raise ValueError(str(error)) from error
        return self


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The directed links and their shape. Raises BadInput for a node that does not exist."""
    shape, links = _shape(value), _links(context, value)
    context.require_nodes(f, links)
    return {
        "links": sorted(list(link) for link in links),
        "shape": asdict(shape),
        "label": _label(context, links, shape),
    }


def undo(f: str, resolved: Resolved) -> UndoRecord | None:
    """Undone by clearing all links."""
    return UndoRecord(f, "clear-packets", {"links": resolved["links"]})


async def inject(context: NemesisContext, _f: str, resolved: Resolved) -> dict[str, Any]:
    """Shape the links and verify all links; returns links, shape, technique and a label.

    Raises PeerFailure if probes do not match the shape of a link, or show an effect on another.
    """
    shaping = _packets(context)
    await shaping.shape(_pairs(resolved), PacketShape(**resolved["shape"]))
    await _verify(context, shaping)
    return {**resolved, "technique": shaping.technique}


async def heal(context: NemesisContext) -> None:
    """Clear all links and verify that no effect is left; does nothing if no link has a shape."""
    if context.packets is None or not context.packets.shapes:
        return
    await context.packets.clear()
    await _verify(context, context.packets)


async def _verify(context: NemesisContext, shaping: Packets) -> None:
    """Probe every link that is not cut until all match, at most TRIES times."""
    problem: str | None = None
    for _ in range(TRIES):
        problem = await _mismatch(context, shaping)
        if problem is None:
            return
    raise PeerFailure(f"verifying packets by {shaping.technique}, {TRIES} tries: {problem}")


async def _mismatch(context: NemesisContext, shaping: Packets) -> str | None:
    """How the first link that does not match its shape differs from it; None if all match.

    Links with limited bandwidth are probed separately: their queues would look like a delay on other links.
    """
    shapes = dict.fromkeys(sorted(set(permutations(context.nodes, 2)) - context.cut_links), UNSHAPED)
    shapes |= {link: shape for link, shape in shaping.shapes.items() if link in shapes}
    limited = [link for link, shape in shapes.items() if shape.rate_kbit_per_second is not None]
    for links in ([link for link in shapes if link not in limited], limited):
        readings = await shaping.read({link: probe_count(shapes[link]) for link in links}) if links else {}
        for (source, target), reading in readings.items():
            problem = mismatch(shapes[source, target], reading)
            if problem is not None:
                return f"n{source}>n{target}: {problem}"
    return None


def _packets(context: NemesisContext) -> Packets:
    assert context.packets is not None, "unavailable faults are refused before"
    return context.packets


def _shape(value: Mapping[str, Any]) -> PacketShape:
    return PacketShape(**{each.name: value[each.name] for each in fields(PacketShape) if each.name in value})


def _links(context: NemesisContext, value: Mapping[str, Any]) -> frozenset[Link]:
    if value["links"] is not None:
        return frozenset((a, b) for a, b in value["links"])
    if value["who"] is None:
        return frozenset(permutations(context.nodes, 2))
    return isolation(context.nodes, context.nodes_in_role(value["who"]), value["direction"])


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


def sample(random_source: random.Random, _nodes: int) -> list[Step]:
    """Delay, loss, duplication, reordering, corruption or limited bandwidth on links of a leader, a follower or all."""
    delay_ms = float(random_source.choice([10, 50, 150, 400]))
    jitter = random_source.choice([0, 0.1, 0.4]) * delay_ms
    shape = random_source.choice(
        [
            PacketShape(delay_ms, jitter, random_source.choice(["uniform", "normal", "pareto"])),
            PacketShape(loss=random_source.choice([0.05, 0.2, 0.5])),
            PacketShape(delay_ms=delay_ms, reorder=0.25),
            PacketShape(duplicate=0.2, loss=0.1),
            PacketShape(corrupt=random_source.choice([0.05, 0.2])),
            PacketShape(rate_kbit_per_second=random_source.choice([256, 1000, 8000])),
        ]
    )
    return [
        packets(
            shape, random_source.choice([LEADER, FOLLOWERS, None]), random_source.choice(["both", "both", "out", "in"])
        )
    ]


TRIAL_SHAPES = (
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
    actions={PACKETS: Action(Shaping)},
    unavailable=lambda context, _action: context.why_unavailable("packets"),
    resolve=resolve,
    undo=undo,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=10,
    trials=tuple((packets(shape, "n1", "out"), sleep(0.2)) for shape in TRIAL_SHAPES),
)
