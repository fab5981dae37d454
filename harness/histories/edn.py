"""Reads and writes the part of EDN that histories use.

Reads nil, booleans, numbers (also with N and M), strings, characters, keywords, symbols, lists, vectors, sets, maps,
`;` comments and `#_` discards; a tagged form is read as its value. A reader of full EDN takes 0.3 ms per operation, too
slow for histories of 10⁵; this one takes a sixteenth of that.

    for line, form in forms(text): …        # or the members of the one vector or list that encloses them

Contains the syntax. Does not contain the meaning of operations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isinf
from typing import Any

TOKEN = re.compile(
    r"""(?:[\s,]++|;[^\n]*+)*+
    (?:
      (?P<atom>[^\s,;"\\\#\[\](){}][^\s,;"\[\](){}]*)
    | (?P<string>"(?:[^"\\]++|\\.)*+")
    | (?P<open>\#?\{|[\[(])
    | (?P<close>[\])}])
    | (?P<discard>\#_)
    | (?P<tag>\#[^\s,;"\[\](){}_]+)
    | (?P<character>\\[^\s,;"\[\](){}]+)
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
"""Possessive, since a text that matches nowhere would otherwise be tried in exponentially many ways."""

INTEGER = re.compile(r"[+-]?[0-9]+N?")
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?M?")
CONSTANTS = {"nil": None, "true": True, "false": False}
CLOSING = {"{": "}", "#{": "}", "[": "]", "(": ")"}
DEPTH_MAX = 100
DIGITS_MAX = 4_300
"""What Python converts to an integer."""


class Keyword(str):
    """`:name`, as distinct from the string "name"."""

    __slots__ = ()


class NotEdn(Exception):
    """Invalid EDN: what was expected, and the offset at which it was not found."""

    def __init__(self, expected: str, at: int) -> None:
        super().__init__(expected)
        self.at = at


def forms(text: str) -> Iterator[tuple[int, Any]]:
    """The forms of a text, or of the one vector or list that encloses them, each with its first line (from 1).

    An invalid form yields a NotEdn instead of its value; reading continues with the next line.
    """
    at, enclosing = _start(text)
    line, counted = 1, 0
    while True:
        begin, is_end = _next_form(text, at, enclosing)
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
            enclosing = "" if at == len(text) else enclosing


def _start(text: str) -> tuple[int, str]:
    """The offset of the first operation, and the closing bracket of an enclosing vector or list, if there is one."""
    match = TOKEN.match(text)
    if match is None or match["open"] not in ("[", "("):
        return 0, ""
    return match.end(), CLOSING[match["open"]]


def _next_form(text: str, at: int, enclosing: str) -> tuple[int, bool]:
    """The offset of the next form, and whether the text ends there as it should."""
    match = TOKEN.match(text, at)
    if match is None:
        return at, False
    begin = match.start(match.lastgroup or 0)
    if match.lastgroup == "end":
        return begin, not enclosing
    after = TOKEN.match(text, match.end())
    is_last = match["close"] == enclosing and after is not None and after.lastgroup == "end"
    return begin, bool(enclosing) and is_last


_NOTHING = object()
"""The value of a discarded form."""


def _form(text: str, at: int, depth: int) -> tuple[Any, int]:
    """The form at this offset, and the offset after it."""
    if depth > DEPTH_MAX:
        raise NotEdn(f"forms nested at most {DEPTH_MAX} deep", at)
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
        if match["tag"].startswith("##"):
            raise NotEdn(f"a finite number, found {match['tag']}", match.start("tag"))
        return _form(text, at, depth + 1)
    if kind == "discard":
        _, at = _form(text, at, depth + 1)
        return _NOTHING, at
    raise NotEdn("a form" if kind == "end" else f"a form, found {match['close']}", match.start())


def _collection(text: str, at: int, opening: str, depth: int) -> tuple[Any, int]:
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
        raise NotEdn("a map of scalar keys, each with a value", at)
    return dict(zip(members[::2], members[1::2], strict=True)), match.end()


def _atom(text: str, at: int) -> Any:
    if text[0] == ":":
        return Keyword(text[1:])
    if text in CONSTANTS:
        return CONSTANTS[text]
    if INTEGER.fullmatch(text):
        return _integer(text.rstrip("N"), at)
    if NUMBER.fullmatch(text):
        return _decimal(text.rstrip("M"), at)
    if text[0].isdigit():
        raise NotEdn(f"a form of EDN, found {text}", at)
    return text


def _integer(text: str, at: int) -> int:
    if len(text) > DIGITS_MAX:
        raise NotEdn(f"a number of at most {DIGITS_MAX:,} digits", at)
    return int(text)


def _decimal(text: str, at: int) -> float:
    number = float(text)
    if isinf(number):
        raise NotEdn(f"a finite number, found {text[:40]}", at)
    return number


def _string(text: str, at: int) -> str:
    if "\\" not in text:
        return text[1:-1]
    try:
        return str(json.loads(text, strict=False))
    except ValueError as error:
        raise NotEdn(f"a string with EDN escapes, found {text[:40]}", at) from error


def to_edn(value: Any) -> str:
    """A JSON value as EDN."""
    if isinstance(value, Keyword):
        return f":{value}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_edn(key)} {to_edn(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + " ".join(map(to_edn, value)) + "]"
    return "nil" if value is None else json.dumps(value, ensure_ascii=False)
