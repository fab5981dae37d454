"""Creation and serialization of SVG elements.

rectangle = element("rect", tooltip("n1: Leader"), x=10, y=4, width=30, height=20, class_="leader")
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Final

from results.xml import valid_xml_text

FONT_WIDTH: Final = 0.53
"""The mean width of a character of a sans-serif font of size 1, to estimate the width of labels."""


def element(tag: str, *children: ET.Element | str, **attributes: str | float | None) -> ET.Element:
    """An element; class_ becomes class, text_anchor becomes text-anchor. Attributes of None are omitted."""
    new = ET.Element(tag, {_name(name): _text(value) for name, value in attributes.items() if value is not None})
    for child in children:
        if isinstance(child, str):
            new.text = (new.text or "") + valid_xml_text(child)
        else:
            new.append(child)
    return new


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _text(value: str | float | None) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else valid_xml_text(str(value))


def tooltip(text: str) -> ET.Element:
    """The tooltip of the parent element, also used by screen readers."""
    return element("title", text)


def label(text: str, x: float, y: float, class_: str = "label", anchor: str | None = None) -> ET.Element:
    """A line of text whose baseline is at y."""
    return element("text", text, x=x, y=y, class_=class_, text_anchor=anchor)


def text_width(text: str, size: float) -> float:
    """The estimated width of a text."""
    return len(text) * size * FONT_WIDTH


def drawing(title: str, width: float, height: float, *children: ET.Element) -> ET.Element:
    """A picture that scales with the page, with a title for screen readers."""
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
    """The element as text, escaped."""
    return ET.tostring(svg, encoding="unicode")
