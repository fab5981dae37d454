"""How messages show a value that was found, and name what was expected.

    f"expected {listed(names)}, found {shown(value)}"      # expected one of a, b, c, found "d"

Contains short texts of values. Does not contain what is wrong with them (validation.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, time
from typing import Any, Final

SHOWN_CHARACTERS: Final = 200

WHOLE_NUMBER, NUMBER, TRUTH, TEXT = "a whole number", "a number", "true or false", "text"


def plain(word: str) -> str:
    """A word as the user wrote it if it is short and printable, else as shown does."""
    return word if word.isprintable() and 0 < len(word) <= SHOWN_CHARACTERS else shown(word)


def listed(names: Iterable[str]) -> str:
    """ "A or B", or "one of A, B, C"."""
    several = list(names)
    return " or ".join(several) if len(several) < 3 else f"one of {', '.join(several)}"


def shown(value: Any) -> str:
    """A value that was found, in one short line."""
    try:
        return short(_text(value))
    except (ValueError, RecursionError):  # more digits, or deeper, than can be written
        return "a value that is too large to show"


def _text(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool | list | dict):
        return json.dumps(value, default=str)
    if isinstance(value, date | time):
        return value.isoformat()
    return repr(value) if isinstance(value, str | int | float) else f"a value of type {type(value).__name__}"


def short(text: str) -> str:
    """The text, or its beginning if it is long."""
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
