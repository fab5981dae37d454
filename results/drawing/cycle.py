"""The picture of a cycle of transactions: each transaction is a card with its micro-ops, each dependency an arrow.

The cards are arranged clockwise in the order of the cycle; an arrow points to the later transaction. Micro-ops on the
keys of the dependencies come first in a card and are highlighted.
"""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from harness.model.records.evidence import Cycle, CycleStep
from results.data import Operation, ShownFinding, SideData
from results.drawing.axis import WIDTH, clip, seconds_of
from results.drawing.svg import drawing, element, label, tooltip

CARD_WIDTH: Final = 236
HEAD: Final = 38
LINE: Final = 15
MICRO_OPS_MAX: Final = 6
MICRO_OP_LENGTH_MAX: Final = 32
CARDS_MAX: Final = 10
MARGIN: Final = 12
BEND, BEND_OF_TWO = 0.05, 0.14
"""An arrow's bend relative to its length; larger if there are two arrows between the same cards."""
CYCLE_CAPTION: Final = (
    "An arrow points to the transaction that must come later: ww wrote the next version, wr read the written version, "
    "rw overwrote the version that was read."
)


@dataclass(frozen=True, slots=True)
class Card:
    """A transaction's card: its centre and its height."""

    x: float
    y: float
    height: float

    def border_towards(self, x: float, y: float) -> tuple[float, float]:
        """The point where the line from the centre to (x, y) leaves the card."""
        right, down = x - self.x, y - self.y
        reach = max(abs(right) / (CARD_WIDTH / 2 + 4), abs(down) / (self.height / 2 + 4), 1e-9)
        return self.x + right / reach, self.y + down / reach


def cycle(shown: ShownFinding, side: SideData) -> ET.Element:
    """The picture of a finding whose evidence is a cycle."""
    assert isinstance(shown.evidence, Cycle), "the evidence must be a cycle"
    steps = shown.evidence.steps[:CARDS_MAX]
    keys = {step.key for step in shown.evidence.steps if step.edge in ("ww", "wr", "rw")}
    operations = {each.start.index: each for each in shown.operations}
    lines = [_lines(operations.get(step.source), keys) for step in steps]
    cards, height = _arrange([HEAD + LINE * len(each) for each in lines])
    ends = dict(zip([step.source for step in steps], cards, strict=True))
    bend = BEND if len(steps) > 2 else BEND_OF_TWO
    arrows = [_arrow(step, ends[step.source], ends[step.target], bend) for step in steps if step.target in ends]
    boxes = [
        _card(step.source, operations.get(step.source), card, texts)
        for step, card, texts in zip(steps, cards, lines, strict=True)
    ]
    title = f"{shown.finding.name}: a cycle of {len(shown.evidence.steps)} transactions, {side.name}"
    description = element("desc", "; ".join(_dependency_text(step) for step in shown.evidence.steps))
    return drawing(title, WIDTH, height, description, *arrows, *boxes)


def _arrange(heights: list[float]) -> tuple[list[Card], float]:
    """The cards on an ellipse, clockwise from the left for two and from the top for more; and the total height."""
    count, highest = len(heights), max(heights)
    across = WIDTH / 2 - CARD_WIDTH / 2 - MARGIN if count > 2 else WIDTH / 3.2
    down = 0.0 if count < 3 else max(highest + 30, (highest + 70) * count / 5)
    first = math.pi if count < 3 else -math.pi / 2
    angles = [first + 2 * math.pi * at / count for at in range(count)]
    ys = [down * math.sin(angle) for angle in angles]
    top = min(y - height / 2 for y, height in zip(ys, heights, strict=True))
    bottom = max(y + height / 2 for y, height in zip(ys, heights, strict=True))
    # Two arrows between two cards bend above and below them.
    margin = MARGIN if count > 2 else MARGIN + max(0.0, BEND_OF_TWO * 2 * across - highest / 2)
    shift = margin - top
    cards = [
        Card(WIDTH / 2 + across * math.cos(angle), y + shift, height)
        for angle, y, height in zip(angles, ys, heights, strict=True)
    ]
    return cards, bottom + shift + margin


def _lines(each: Operation | None, keys: Collection[str | None]) -> list[tuple[str, bool]]:
    """The micro-ops of a transaction as text, and whether they are on a key of the cycle."""
    if each is None:
        return []
    value = each.start.value if each.end is None or each.end.value is None else each.end.value
    micro_ops = value if isinstance(value, list) else [value]
    lines = [(clip(_micro_op(micro_op), MICRO_OP_LENGTH_MAX), _is_on(micro_op, keys)) for micro_op in micro_ops]
    ordered = sorted(lines, key=lambda line: not line[1])
    if len(ordered) <= MICRO_OPS_MAX:
        return ordered
    return [*ordered[: MICRO_OPS_MAX - 1], (f"and {len(ordered) - MICRO_OPS_MAX + 1} more", False)]


def _micro_op(micro_op: Any) -> str:
    """`append x 3`, `r x → [1, 2]`, `poll {"x": [[0, 1]]}`."""
    if not isinstance(micro_op, list) or not micro_op:
        return json.dumps(micro_op, ensure_ascii=False)
    f, *arguments = micro_op
    texts = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in arguments]
    return f"{f} {texts[0]} → {texts[1]}" if f == "r" and len(texts) == 2 else " ".join([str(f), *texts])


def _is_on(micro_op: Any, keys: Collection[str | None]) -> bool:
    if not isinstance(micro_op, list) or len(micro_op) < 2:
        return False
    return not keys.isdisjoint(micro_op[1]) if isinstance(micro_op[1], dict) else micro_op[1] in keys  # type: ignore[attr-defined]


def _card(txn: int, each: Operation | None, card: Card, lines: list[tuple[str, bool]]) -> ET.Element:
    left, top = card.x - CARD_WIDTH / 2, card.y - card.height / 2
    outcome = "ok" if each is None else each.outcome
    parts = [
        element("rect", x=left, y=top, width=CARD_WIDTH, height=card.height, rx=4, class_=f"card {outcome}"),
        label(f"T{txn}", left + 10, top + 19, "card-name"),
        label(_process_and_time(each), left + CARD_WIDTH - 10, top + 19, "tick", "end"),
    ]
    parts += [
        label(text, left + 10, top + HEAD + LINE * at - 2, "micro-op on-cycle" if on_cycle else "micro-op")
        for at, (text, on_cycle) in enumerate(lines)
    ]
    return element("g", *parts)


def _process_and_time(each: Operation | None) -> str:
    if each is None:
        return ""
    outcome = {"ok": "", "fail": ", failed", "info": ", unknown"}[each.outcome]
    return f"p{each.start.process}, {seconds_of(each.start.time_ns)}{outcome}"


def _arrow(step: CycleStep, source: Card, target: Card, bend: float) -> ET.Element:
    """An arrow from card to card, bent to its right (inwards), so that two arrows between the same cards differ."""
    middle_x, middle_y = (source.x + target.x) / 2, (source.y + target.y) / 2
    away_x, away_y = source.y - target.y, target.x - source.x
    bend_x, bend_y = middle_x + away_x * bend, middle_y + away_y * bend
    start, end = source.border_towards(bend_x, bend_y), target.border_towards(bend_x, bend_y)
    top_x, top_y = (start[0] + 2 * bend_x + end[0]) / 4, (start[1] + 2 * bend_y + end[1]) / 4
    path = f"M{start[0]:.2f} {start[1]:.2f}Q{bend_x:.2f} {bend_y:.2f} {end[0]:.2f} {end[1]:.2f}"
    return element(
        "g",
        tooltip(_dependency_text(step)),
        element("path", d=path, class_=f"edge {step.edge}"),
        element("path", d=_tip(end, (bend_x, bend_y)), class_=f"edge-tip {step.edge}"),
        label(_edge_text(step), top_x, top_y + 4, f"edge-label {step.edge}", "middle"),
    )


def _tip(end: tuple[float, float], start: tuple[float, float]) -> str:
    """An arrow head at end."""
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    corners = [(end[0] - 9 * math.cos(angle + turn), end[1] - 9 * math.sin(angle + turn)) for turn in (-0.42, 0.42)]
    return f"M{end[0]:.2f} {end[1]:.2f}" + "".join(f"L{x:.2f} {y:.2f}" for x, y in corners) + "z"


def _edge_text(step: CycleStep) -> str:
    """`wr x: 1`, `rw x: nothing, then 1`, `realtime`."""
    if step.edge in ("process", "realtime"):
        return step.edge
    before = "nothing" if step.value is None else step.value
    text = before if step.edge == "wr" else f"{before}, then {step.following}"
    return f"{step.edge} {step.key}: {clip(text, MICRO_OP_LENGTH_MAX)}"


def _dependency_text(step: CycleStep) -> str:
    return f"T{step.target} comes after T{step.source}: {_edge_text(step)}"
