"""What text XML admits: messages quote what nodes sent, and nodes under test send anything.

What may live here: this one rule, for junit.py and drawing/.
"""

from __future__ import annotations

import re

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def admitted(text: str) -> str:
    """The text with each character that XML does not admit, even escaped, replaced by U+FFFD."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
