"""SVG elements from Python calls, and the text they become.

    rectangle = element("rect", tooltip("n1: Leader"), x=10, y=4, width=30, height=20, class_="leader")

What may live here: making and writing elements. What may not: what is drawn.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Final

from results.xml import admitted

FONT_WIDTH: Final = 0.53
"""Of a sans-serif font, a character's mean width for a size of 1: for guessing whether a label fits."""


def element(tag: str, *children: ET.Element | str, **attributes: str | float | None) -> ET.Element:
    """An element; class_ becomes class, text_anchor text-anchor. Attributes of None are left out."""
    made = ET.Element(tag, {_name(name): _text(value) for name, value in attributes.items() if value is not None})
    for child in children:
        if isinstance(child, str):
            made.text = (made.text or "") + admitted(child)
        else:
            made.append(child)
    return made


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _text(value: str | float | None) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else admitted(str(value))


def tooltip(text: str) -> ET.Element:
    """What a pointer or a screen reader tells of the element this is put in."""
    return element("title", text)


def label(text: str, x: float, y: float, class_: str = "label", anchor: str | None = None) -> ET.Element:
    """A line of text whose baseline is at y."""
    return element("text", text, x=x, y=y, class_=class_, text_anchor=anchor)


def text_width(text: str, size: float) -> float:
    """About how wide a text is."""
    return len(text) * size * FONT_WIDTH


def drawing(title: str, width: float, height: float, *children: ET.Element) -> ET.Element:
    """A picture with a title that is read aloud; it scales with the page."""
    return element(
        "svg",
        tooltip(title),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=title,
    )


def markup(svg: ET.Element) -> str:
    """The element as text, everything escaped."""
    return ET.tostring(svg, encoding="unicode")
