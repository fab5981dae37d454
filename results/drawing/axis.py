"""The time axis of all pictures in a report, with the same width and margins, so that they align on the page."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Final

from results.drawing.scale import Scale, ticks
from results.drawing.svg import element, label

WIDTH: Final = 1000
LEFT: Final = 56
RIGHT: Final = 30
TICKS_MAX: Final = 12


def time_scale(duration_ns: int) -> Scale:
    """The horizontal coordinate of a run time."""
    return Scale(0, duration_ns, LEFT, WIDTH - RIGHT)


def time_axis(scale: Scale, top: float) -> ET.Element:
    """The axis below a picture, with ticks at round seconds."""
    marks = [element("path", d=f"M{LEFT} {top:.2f}H{WIDTH - RIGHT}", class_="axis")]
    for second in ticks(scale.high / 1e9, TICKS_MAX):
        x = scale(second * 1e9)
        marks.append(element("path", d=f"M{x:.2f} {top:.2f}v4", class_="axis"))
        marks.append(label(f"{second:g} s", x, top + 16, "tick", "middle"))
    return element("g", *marks)


def seconds_of(time_ns: int) -> str:
    """A run time as text."""
    return f"{time_ns / 1e9:.3f} s"


def clip(text: str, length_max: int) -> str:
    """The text, shortened with an ellipsis if necessary."""
    return text if len(text) <= length_max else text[: length_max - 1] + "…"
