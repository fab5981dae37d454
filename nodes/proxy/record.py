"""The record of RPCs: one JSON array per line, with RpcRow's fields in order.

Contains writing and reading of rows. Does not interpret them.

Rows are written in batches every FLUSH_SECONDS. A killed proxy loses at most one batch and truncates at most the last
line, which the reader skips.
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
    """Appends rows to a file. call_later(seconds, callback) is the event loop's."""

    def __init__(self, path: Path, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self._file = path.open("ab")
        self._call_later = call_later
        self._rows: list[RpcRow] = []

    def append(self, row: RpcRow) -> None:
        """Add a row; it is written within FLUSH_SECONDS."""
        if not self._rows:
            self._call_later(FLUSH_SECONDS, self.flush)
        self._rows.append(row)

    def flush(self) -> None:
        """Write all pending rows."""
        rows, self._rows = self._rows, []
        self._file.write(b"".join(json.dumps(_VALUES(row)).encode() + b"\n" for row in rows))
        self._file.flush()


def read_rows(path: Path) -> Iterator[RpcRow]:
    """The rows of a file, without a truncated last line."""
    *lines, _truncated = path.read_bytes().split(b"\n")
    for line in lines:
        yield RpcRow(*json.loads(line))
