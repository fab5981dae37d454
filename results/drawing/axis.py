"""The time axis that every picture of a report shares: same width, same margins, so that all line up on a page.

What may live here: the common frame. What may not: what is drawn in it.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Final

from results.drawing.scale import Scale, ticks
from results.drawing.svg import element, label

WIDTH: Final = 1160
LEFT: Final = 56
RIGHT: Final = 30
TICKS_MAX: Final = 12


def time_scale(duration_ns: int) -> Scale:
    """Where on the picture a run time is."""
    return Scale(0, duration_ns, LEFT, WIDTH - RIGHT)


def time_axis(scale: Scale, top: float) -> ET.Element:
    """The line below a picture with round seconds on it."""
    marks = [element("path", d=f"M{LEFT} {top:.2f}H{WIDTH - RIGHT}", class_="axis")]
    for second in ticks(scale.high / 1e9, TICKS_MAX):
        place = scale(second * 1e9)
        marks.append(element("path", d=f"M{place:.2f} {top:.2f}v4", class_="axis"))
        marks.append(label(f"{second:g} s", place, top + 16, "tick", "middle"))
    return element("g", *marks)


def seconds_of(time_ns: int) -> str:
    """A run time in words."""
    return f"{time_ns / 1e9:.3f} s"


def clip(text: str, length_max: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= length_max else text[: length_max - 1] + "…"
