"""The faults in a picture: a lane for each that overlaps others, and one shading for all times with a fault in place.

A fault is a bar in its lane, with its label above, and two thin lines down through the rows. A mark, or an operation
without a lasting effect, is a diamond and a dashed line. Labels have room of their own in the lanes and cover nothing.
If there are too many for LANES_MAX lanes, those that do not fit have no label, only a tooltip.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.model.records.fault_intervals import FaultInterval, spans_of
from results.drawing.axis import LEFT, RIGHT, WIDTH, seconds_of
from results.drawing.svg import element, label, text_width, tooltip

LANE_HEIGHT: Final = 19
LANES_MAX: Final = 10
BAR_HEIGHT: Final = 3
BAR_WIDTH_MIN: Final = 2.0
DIAMOND: Final = 4.0
FONT: Final = 11.6
"""The labels' font size; their bold characters are a little wider than the mean."""
GAP: Final = 10
NEAR: Final = 4
"""The distance of a lane's elements: after a label, and after a bar."""

TimeScale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class PlacedFault:
    """A fault in a lane. label_x is where its label begins, None if there is no room for it."""

    interval: FaultInterval
    lane: int
    label_x: float | None


def fault_lanes(faults: Sequence[FaultInterval], scale: TimeScale) -> list[PlacedFault]:
    """Each fault in the first lane with room for it and its label, else for it alone, else in the last lane."""
    free: list[float] = []
    placed: list[PlacedFault] = []
    for interval in faults:
        label_x, left, right = _extent(interval, scale)
        bar_left, bar_right = scale(interval.start_ns) - DIAMOND, scale(interval.end_ns) + NEAR
        lane = _lane(free, left)
        has_label = lane is not None
        if lane is None:
            lane = next((at for at, end in enumerate(free) if end <= bar_left), LANES_MAX - 1)
        taken = free[lane] if lane < len(free) else 0.0
        free[lane : lane + 1] = [max(right if has_label else bar_right, bar_right, taken)]
        placed.append(PlacedFault(interval, lane, label_x if has_label else None))
    return placed


def _lane(free: Sequence[float], left: float) -> int | None:
    """The first lane that is free from left on, or a new one; None if there may be no more."""
    lane = next((at for at, end in enumerate(free) if end <= left), len(free))
    return lane if lane < LANES_MAX else None


def _extent(interval: FaultInterval, scale: TimeScale) -> tuple[float, float, float]:
    """Where the label begins, and from where to where it and the bar's start extend.

    A label that would leave the picture at the right is moved to the left; that of a diamond, to its other side.
    """
    start, width = scale(interval.start_ns), text_width(interval.label, FONT)
    room = WIDTH - RIGHT - width
    if interval.momentary:
        label_x = start + DIAMOND + NEAR if start <= room else max(LEFT, start - DIAMOND - NEAR - width)
    else:
        label_x = max(LEFT, min(start, room))
    return label_x, min(label_x, start - DIAMOND), label_x + width + GAP


def lanes_height(placed: Sequence[PlacedFault]) -> float:
    """The height of the lanes."""
    return float(LANE_HEIGHT * (max((each.lane for each in placed), default=-1) + 1))


def fault_shades(faults: Sequence[FaultInterval], scale: TimeScale, top: float, bottom: float) -> list[ET.Element]:
    """One shading for all times with a fault in place; marks have none."""
    lasting = [each for each in faults if not each.momentary]
    shades = []
    for start_ns, end_ns in spans_of(lasting):
        labels = [each.label for each in lasting if each.start_ns < end_ns and each.end_ns > start_ns]
        x = scale(start_ns)
        shape = {"x": x, "y": top, "width": max(scale(end_ns) - x, 1.0), "height": bottom - top}
        shades.append(element("rect", tooltip("; ".join(labels)), **shape, class_="fault"))
    return shades


def fault_lines(placed: PlacedFault, scale: TimeScale, lanes_top: float, rows_top: float, bottom: float) -> ET.Element:
    """A fault's bar or diamond and its label in its lane, and its lines through the rows."""
    interval, y = placed.interval, lanes_top + LANE_HEIGHT * (placed.lane + 1) - BAR_HEIGHT - 2
    start, end = scale(interval.start_ns), scale(interval.end_ns)
    if interval.momentary:
        parts = [element("path", d=_diamond(start, y - 4), class_="fault-mark"), _line(start, rows_top, bottom, "mark")]
    else:
        width = max(end - start, BAR_WIDTH_MIN)
        bar = element("rect", x=start, y=y, width=width, height=BAR_HEIGHT, class_="fault-bar")
        parts = [bar, *(_line(x, rows_top, bottom, "edge") for x in (start, end))]
    if placed.label_x is not None:
        parts.append(label(interval.label, placed.label_x, y - (0 if interval.momentary else 3), "fault-label"))
    return element("g", tooltip(f"{interval.label}: {_when(interval)}"), *parts, class_="fault-interval")


def _line(x: float, top: float, bottom: float, kind: str) -> ET.Element:
    return element("path", d=f"M{x:.2f} {top:.2f}V{bottom:.2f}", class_=f"fault-{kind}-line")


def _diamond(x: float, y: float) -> str:
    return f"M{x:.2f} {y - DIAMOND:.2f}l{DIAMOND} {DIAMOND}l-{DIAMOND} {DIAMOND}l-{DIAMOND} -{DIAMOND}z"


def _when(interval: FaultInterval) -> str:
    if interval.start_ns == interval.end_ns:
        return seconds_of(interval.start_ns)
    return f"{seconds_of(interval.start_ns)} to {seconds_of(interval.end_ns)}"


def fault_samples(faults: Sequence[FaultInterval]) -> list[tuple[ET.Element, str]]:
    """Samples for a legend, with their texts."""
    samples = []
    if any(not each.momentary for each in faults):
        shade = element("rect", y=3, width=16, height=9, class_="fault")
        bar = element("rect", width=16, height=BAR_HEIGHT, class_="fault-bar")
        samples.append((element("g", shade, bar), "fault"))
    if any(each.momentary for each in faults):
        samples.append((element("path", d=_diamond(8, 6), class_="fault-mark"), "mark"))
    return samples
