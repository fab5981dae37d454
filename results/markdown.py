"""Markdown that shows any text as it is: a name or a message cannot end a cell, open a tag or become a link."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_SPECIAL: Final = str.maketrans(
    {**{character: f"\\{character}" for character in "\\`*_[]|#~"}, "<": "&lt;", ">": "&gt;", "&": "&amp;"}
)


def cell(text: str) -> str:
    """Text as plain words, on one line."""
    return " ".join(text.translate(_SPECIAL).split())


def code(text: str) -> str:
    """Text as code, on one line; characters that would end it are left out."""
    plain = " ".join(text.replace("`", " ").replace("|", " ").split())
    return f"`{plain}`" if plain else ""


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, whose cells are Markdown, and an empty one."""
    return [*(f"| {' | '.join(row)} |" for row in (headers, ["---"] * len(headers), *rows)), ""]
