"""The sequence diagram of the messages between nodes.

Each node is a column. Messages are ordered by time but not to scale, with the run time of each at the left. An arrow
that does not reach its target was dropped, held or answered by a rule; its label names the action.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Final

from results.data import Message, SideData
from results.drawing.axis import LEFT, WIDTH
from results.drawing.svg import drawing, element, label, tooltip

ROW_HEIGHT: Final = 20
TOP: Final = 34
TIME_WIDTH: Final = 70
ARRIVES: Final = frozenset({"pass", "delay", "duplicate"})
SHAFT: Final = 0.62
"""The length of an arrow that does not reach its target, relative to the full length."""


def sequence(side: SideData) -> ET.Element:
    """The picture of a side's messages."""
    nodes = sorted({end for message in side.messages for end in (message.source, message.target)})
    columns = _columns(nodes)
    bottom = TOP + ROW_HEIGHT * len(side.messages) + 8
    lanes = [
        element(
            "g",
            label(f"n{node}" if node else "clients", x, 18, "node", "middle"),
            element("path", d=f"M{x:.2f} {TOP - 10}V{bottom:.2f}", class_="grid"),
        )
        for node, x in columns.items()
    ]
    arrows = [_arrow(message, columns, TOP + ROW_HEIGHT * number + 12) for number, message in enumerate(side.messages)]
    return drawing(f"Messages between nodes, {side.name}", WIDTH, bottom + 6, *lanes, *arrows)


def _columns(nodes: Sequence[int]) -> Mapping[int, float]:
    left, right = LEFT + TIME_WIDTH + 40.0, WIDTH - 140.0
    step = (right - left) / max(1, len(nodes) - 1)
    return {node: left + step * number for number, node in enumerate(nodes)}


def _arrow(message: Message, columns: Mapping[int, float], y: float) -> ET.Element:
    start, end = columns[message.source], columns[message.target]
    arrives = message.action in ARRIVES
    tip = end if arrives else start + (end - start) * SHAFT
    back = 7 if tip < start else -7
    head = f"M{tip + back:.2f} {y - 4:.2f}L{tip:.2f} {y:.2f}L{tip + back:.2f} {y + 4:.2f}"
    lost = f"M{tip - 4:.2f} {y - 4:.2f}l8 8m0 -8l-8 8"
    kind = "message" if arrives else "message lost"
    return element(
        "g",
        tooltip(f"{message.text}, n{message.source} to n{message.target} at {message.time_ns / 1e9:.4f} s"),
        label(f"{message.time_ns / 1e9:.3f} s", LEFT + TIME_WIDTH - 6, y + 4, "tick", "end"),
        element("path", d=f"M{start:.2f} {y:.2f}H{tip:.2f}", class_=kind),
        element("path", d=head if arrives else lost, class_=f"{kind} tip"),
        label(message.text, start + (8 if tip > start else -8), y - 5, "tick", None if tip > start else "end"),
        class_=message.direction,
    )
