"""The record of RPCs: one JSON array a line, in the order of RpcRow's fields.

What may live here: writing rows to a file and reading them back. What may not: what a row means to a check.

Rows are written together, a few times a second: a proxy that is killed loses at most FLUSH_SECONDS of them, and cuts at
most the last line short, which reading leaves out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from operator import attrgetter
from pathlib import Path

from harness.model.faults.rpc import RpcRow

FLUSH_SECONDS = 0.2
_VALUES = attrgetter(*(field.name for field in fields(RpcRow)))


class RowFile:
    """A file of rows, appended to. call_later(seconds, callback) is the event loop's."""

    def __init__(self, path: Path, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self._file = path.open("ab")
        self._call_later = call_later
        self._rows: list[RpcRow] = []

    def tell(self, row: RpcRow) -> None:
        """Take a row; it is on its way to the file within FLUSH_SECONDS."""
        if not self._rows:
            self._call_later(FLUSH_SECONDS, self.flush)
        self._rows.append(row)

    def flush(self) -> None:
        """Write what has been told."""
        rows, self._rows = self._rows, []
        self._file.write(b"".join(json.dumps(_VALUES(row)).encode() + b"\n" for row in rows))
        self._file.flush()


def read_rows(path: Path) -> Iterator[RpcRow]:
    """The rows of a file, but for a last line that was cut short."""
    *lines, _torn = path.read_bytes().split(b"\n")
    for line in lines:
        yield RpcRow(*json.loads(line))
