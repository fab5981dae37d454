"""Text for XML documents. Messages quote text from nodes, which may contain any character."""

from __future__ import annotations

import re

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def valid_xml_text(text: str) -> str:
    """The text with U+FFFD for each character that XML does not allow, even escaped."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
