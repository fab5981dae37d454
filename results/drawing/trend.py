"""How a case fares over time: how often it failed, and what was measured, with a column for each night.

Contains the layout of these two charts. harness.serving.trends makes the points.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from results.drawing.axis import LEFT, RIGHT, WIDTH
from results.drawing.charts import BOTTOM, HEIGHT, TOP, grid_line
from results.drawing.scale import Scale, ticks
from results.drawing.svg import drawing, element, label, tooltip
from results.quantities import quantity_text

LABELS_MAX: Final = 10
LABEL_LENGTH: Final = 10
"""The length of a date; more of a night's name does not fit below its column."""


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """A value with its range (an interval, or the smallest and the largest) in a column; tone is its colour."""

    label: str
    value: float
    low: float
    high: float
    text: str
    tone: str = "neutral"
    url: str | None = None


def failure_chart(title: str, points: Sequence[TrendPoint | None]) -> ET.Element:
    """The shares of runs that failed, from 0 to 1, each with its interval; None where nothing was decided."""
    heights = Scale(0, 1, BOTTOM, TOP)
    grid = [grid_line(f"{share:.0%}", heights(share)) for share in (0, 0.25, 0.5, 0.75, 1)]
    return _chart(title, grid, points, heights)


def quantity_chart(title: str, name: str, points: Sequence[TrendPoint | None]) -> ET.Element:
    """A quantity of this name; None where it was not measured."""
    highest = max((point.high for point in points if point), default=0) or 1
    heights = Scale(0, highest, BOTTOM, TOP)
    grid = [grid_line(quantity_text(name, value), heights(value)) for value in ticks(highest, 4)]
    return _chart(title, grid, points, heights)


def _chart(title: str, grid: Sequence[ET.Element], points: Sequence[TrendPoint | None], heights: Scale) -> ET.Element:
    columns = [LEFT + (number + 0.5) * (WIDTH - LEFT - RIGHT) / len(points) for number in range(len(points))]
    placed = [(x, point) for x, point in zip(columns, points, strict=True) if point is not None]
    path = "L".join(f"{x:.2f} {heights(point.value):.2f}" for x, point in placed)
    line = [element("path", d=f"M{path}", class_="trend-line")] if path else []
    marks = [_mark(x, point, heights) for x, point in placed]
    labels = list(_labels(columns, points))
    return drawing(title, WIDTH, HEIGHT, label(title, LEFT, 14, "tick"), *grid, *line, *marks, *labels)


def _mark(x: float, point: TrendPoint, heights: Scale) -> ET.Element:
    """A point with its range, which links to what it is about."""
    span = element("path", d=f"M{x:.2f} {heights(point.low):.2f}V{heights(point.high):.2f}", class_="trend-range")
    dot = element("circle", cx=x, cy=heights(point.value), r=4, class_=f"trend-point {point.tone}")
    text = tooltip(f"{point.label}: {point.text}")
    return element("a", text, span, dot, href=point.url) if point.url else element("g", text, span, dot)


def _labels(columns: Sequence[float], points: Sequence[TrendPoint | None]) -> Iterator[ET.Element]:
    """The dates of at most LABELS_MAX columns, the last one among them."""
    every = -(-len(points) // LABELS_MAX)
    for number, (x, point) in enumerate(zip(columns, points, strict=True)):
        if point is not None and (len(points) - 1 - number) % every == 0:
            yield label(point.label[:LABEL_LENGTH], x, BOTTOM + 16, "tick", "middle")
