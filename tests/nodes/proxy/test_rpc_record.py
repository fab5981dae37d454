"""The record of RPCs is read back as it was written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.model.faults.rpc import RpcRow
from nodes.proxy.record import RowFile, read_rows

ROWS = [
    RpcRow(5, 1, 2, 52, 2, 7, "request", 101, pre_vote=True, epoch=4),
    RpcRow(9, 2, 1, 52, 2, 7, "response", 60, pre_vote=True, epoch=4, granted=False, action="delay"),
]


def test_rows_are_written_in_batches_and_a_truncated_line_is_skipped(tmp_path: Path) -> None:
    path, timers = tmp_path / "rows.jsonl", list[Callable[[], None]]()
    file = RowFile(path, lambda _seconds, callback: timers.append(callback))
    for row in ROWS:
        file.append(row)
    assert path.read_bytes() == b""
    [flush] = timers
    flush()
    with path.open("ab") as truncated:
        truncated.write(b"[11, 1, 2, 5")
    assert list(read_rows(path)) == ROWS
