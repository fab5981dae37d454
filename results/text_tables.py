"""Tables of text: rows below their headers, with cells that are wrapped to a width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from tabulate import tabulate


def text_table(headers: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int] | None = None) -> str:
    """The table; empty without rows and headers. widths are the columns' largest numbers of characters, if any.

    Cells are text and stay as they are: tabulate's own wrapping takes 1,443 for a number and fails.
    """
    cells = [list(row) for row in rows]
    if widths is not None:
        cells = [[_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    return tabulate(cells, headers=headers, disable_numparse=True)


def _wrapped(cell: str, width: int) -> str:
    """The cell in lines of at most this many characters; its own line breaks stay."""
    return "\n".join(part for line in cell.splitlines() or [""] for part in textwrap.wrap(line, width) or [""])
