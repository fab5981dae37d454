"""Reads and writes EDN, as far as histories need it.

Read: nil, booleans, numbers (N and M too), strings, characters, keywords, symbols, lists, vectors, sets, maps, `;`
comments and `#_` discards; of a tagged form its value. A reader of full EDN takes 0.3 ms an operation, so that a
history of 10⁵ would wait a minute; this one takes a sixteenth.

    for line, form in forms(text): …        # a vector or list around all of them is seen through

What may live here: that syntax. What may not: what an operation is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

TOKEN = re.compile(
    r"""(?:[\s,]+|;[^\n]*)*
    (?:
      (?P<atom>[^\s,;"\\\#\[\](){}][^\s,;"\[\](){}]*)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<open>\#?\{|[\[(])
    | (?P<close>[\])}])
    | (?P<discard>\#_)
    | (?P<tag>\#[^\s,;"\[\](){}_]+)
    | (?P<character>\\[^\s,;"\[\](){}]+)
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
INTEGER = re.compile(r"[+-]?[0-9]+N?")
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?M?")
CONSTANTS = {"nil": None, "true": True, "false": False}
CLOSING = {"{": "}", "#{": "}", "[": "]", "(": ")"}
DEPTH_MAX = 100


class Keyword(str):
    """`:name`, kept apart from the string "name"."""

    __slots__ = ()


class NotEdn(Exception):
    """The text is not EDN at some place: what was expected there, and the offset."""

    def __init__(self, expected: str, at: int) -> None:
        super().__init__(expected)
        self.at = at


def forms(text: str) -> Iterator[tuple[int, Any]]:
    """The forms of a text, or of the one vector or list around them, each with the line that it begins on (from 1).

    A form that is no EDN is a NotEdn in place of its value; reading goes on with the next line.
    """
    at, around = _start(text)
    line, counted = 1, 0
    while True:
        begin, is_end = _ahead(text, at, around)
        line, counted = line + text.count("\n", counted, begin), begin
        if is_end:
            return
        try:
            form, at = _form(text, at, 0)
            if form is not _NOTHING:
                yield line, form
        except NotEdn as error:
            yield line, error
            at = text.find("\n", begin) + 1 or len(text)
            around = "" if at == len(text) else around


def _start(text: str) -> tuple[int, str]:
    """Where the first operation is, and what closes the vector or list around all of them, if there is one."""
    match = TOKEN.match(text)
    if match is None or match["open"] not in ("[", "("):
        return 0, ""
    return match.end(), CLOSING[match["open"]]


def _ahead(text: str, at: int, around: str) -> tuple[int, bool]:
    """Where the next form begins, and whether there is none, as there should not be."""
    match = TOKEN.match(text, at)
    if match is None:
        return at, False
    begin = match.start(match.lastgroup or 0)
    if match.lastgroup == "end":
        return begin, not around
    after = TOKEN.match(text, match.end())
    is_last = match["close"] == around and after is not None and after.lastgroup == "end"
    return begin, bool(around) and is_last


_NOTHING = object()
"""What a discard leaves."""


def _form(text: str, at: int, depth: int) -> tuple[Any, int]:
    """The form at this offset, and the offset after it."""
    match = TOKEN.match(text, at)
    if match is None:
        raise NotEdn("a form of EDN", at)
    kind, at = match.lastgroup, match.end()
    if kind == "atom":
        return _atom(match["atom"], match.start("atom")), at
    if kind == "string":
        return _string(match["string"], match.start("string")), at
    if kind == "open":
        return _collection(text, at, match["open"], depth + 1)
    if kind == "character":
        return match["character"][1:], at
    if kind == "tag":
        return _form(text, at, depth + 1)
    if kind == "discard":
        _, at = _form(text, at, depth + 1)
        return _NOTHING, at
    raise NotEdn("a form" if kind == "end" else f"a form, found {match['close']}", match.start())


def _collection(text: str, at: int, opening: str, depth: int) -> tuple[Any, int]:
    if depth > DEPTH_MAX:
        raise NotEdn(f"forms inside one another at most {DEPTH_MAX} deep", at)
    closing, members = CLOSING[opening], []
    while True:
        match = TOKEN.match(text, at)
        if match is not None and match.lastgroup == "close" and match["close"] == closing:
            break
        if match is not None and match.lastgroup in ("end", "close"):
            raise NotEdn(f"{closing} to close {opening}", match.start(match.lastgroup))
        member, at = _form(text, at, depth)
        if member is not _NOTHING:
            members.append(member)
    if opening != "{":
        return members, match.end()
    if len(members) % 2 or not all(isinstance(key, str | int | float | None) for key in members[::2]):
        raise NotEdn("a map of plain keys, each with a value", at)
    return dict(zip(members[::2], members[1::2], strict=True)), match.end()


def _atom(text: str, at: int) -> Any:
    if text[0] == ":":
        return Keyword(text[1:])
    if text in CONSTANTS:
        return CONSTANTS[text]
    if INTEGER.fullmatch(text):
        return int(text.rstrip("N"))
    if NUMBER.fullmatch(text):
        return float(text.rstrip("M"))
    if text[0].isdigit():
        raise NotEdn(f"a form of EDN, found {text}", at)
    return text


def _string(text: str, at: int) -> str:
    if "\\" not in text:
        return text[1:-1]
    try:
        return str(json.loads(text, strict=False))
    except ValueError as error:
        raise NotEdn(f"a string with EDN's escapes, found {text[:40]}", at) from error


def written(value: Any) -> str:
    """A JSON value as EDN."""
    if isinstance(value, Keyword):
        return f":{value}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(key)} {written(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + " ".join(map(written, value)) + "]"
    return "nil" if value is None else json.dumps(value, ensure_ascii=False)
