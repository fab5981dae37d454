"""The panel of the timeline with each node's epoch over time, as step lines."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from results.data import EpochStep, SideData
from results.drawing.axis import LEFT, RIGHT, WIDTH
from results.drawing.scale import Scale, round_step
from results.drawing.svg import element, label, text_width, tooltip

EPOCHS_HEIGHT: Final = 96
MARGIN_TOP: Final = 34
MARGIN_BOTTOM: Final = 10
LINE_COLOURS: Final = 7


def epoch_lines(side: SideData, epochs_shown: range, scale: Scale, top: float) -> ET.Element:
    """The panel below a side's rows; epochs_shown covers all sides, so that they have the same scale.

    Lines are offset slightly so that equal epochs do not overlap.
    """
    nodes, low, high = side.nodes, epochs_shown.start, epochs_shown.stop - 1
    heights = Scale(low, high, top + EPOCHS_HEIGHT - MARGIN_BOTTOM, top + MARGIN_TOP)
    lines = []
    for node, steps in groupby(side.epochs, key=lambda step: step.node):
        position = nodes.index(node)
        offset = (position - (len(nodes) - 1) / 2) * 2.2
        lines.append(_line(position, node, list(steps), side.duration_ns, scale, heights, offset))
    return element("g", *_grid(low, high, heights), *lines, *_key(nodes, top), class_="epochs")


def _line(
    position: int, node: int, steps: list[EpochStep], end_ns: int, scale: Scale, heights: Scale, offset: float
) -> ET.Element:
    path = f"M{scale(steps[0].time_ns):.2f} {heights(steps[0].epoch) + offset:.2f}"
    for step in steps[1:]:
        path += f"H{scale(step.time_ns):.2f}V{heights(step.epoch) + offset:.2f}"
    text = f"n{node}: epochs {', '.join(str(step.epoch) for step in steps)}"
    return element("path", tooltip(text), d=f"{path}H{scale(end_ns):.2f}", class_=_colour(position))


def _colour(position: int) -> str:
    return f"line line-{position % LINE_COLOURS}"


def _grid(low: int, high: int, heights: Scale) -> list[ET.Element]:
    step = max(1, int(round_step(high - low, 4)))
    grid = []
    for epoch in range(low, high + 1, step):
        y = heights(epoch)
        grid.append(element("path", d=f"M{LEFT} {y:.2f}H{WIDTH - RIGHT}", class_="grid"))
        grid.append(label(str(epoch), LEFT - 12, y + 3.5, "tick", "end"))
    return grid


def _key(nodes: Sequence[int], top: float) -> list[ET.Element]:
    """The panel's name and the nodes' line styles."""
    key = [label("epoch", LEFT, top + 22, "tick")]
    left = LEFT + 46.0
    for position, node in enumerate(nodes):
        key.append(element("path", d=f"M{left:.2f} {top + 18.5:.2f}h14", class_=_colour(position)))
        key.append(label(f"n{node}", left + 18, top + 22, "tick"))
        left += 18 + text_width(f"n{node}", 11) + 14
    return key
