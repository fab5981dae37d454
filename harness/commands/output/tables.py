"""Tables on standard output: as wide as the terminal, or with one line for each row where there is no terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from tabulate import MIN_PADDING

from harness.commands.output.console import Output, print_json
from results.text_tables import text_table

GAP: Final = 2
WIDTH_MIN: Final = 8
"""No column becomes narrower than this."""


def print_rows(headers: Sequence[str], rows: Iterable[Sequence[str]], output: Output) -> None:
    """Print rows as a table, or each as a JSON object with the headers as keys."""
    if output.is_json:
        for row in rows:
            print_json(dict(zip(headers, row, strict=True)))
    else:
        print_table(headers, rows)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows below their headers."""
    print(table(headers, list(rows), shutil.get_terminal_size().columns if sys.stdout.isatty() else None))


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """The table as text; cells are wrapped so that it has at most this many columns of text, if there is a width."""
    padded = [header + " " * MIN_PADDING for header in headers]
    widths = None if width is None else _fitted([_widest(column) for column in zip(padded, *rows, strict=True)], width)
    return text_table(headers, rows, widths if rows else None)


def _widest(cells: Iterable[str]) -> int:
    return max(len(line) for cell in cells for line in (cell.splitlines() or [""]))


def _fitted(widths: Sequence[int], total: int) -> list[int]:
    """The widths, the widest ones reduced until they fit."""
    fitted = list(widths)
    left = total - GAP * (len(widths) - 1)
    while sum(fitted) > left and max(fitted) > WIDTH_MIN:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted
