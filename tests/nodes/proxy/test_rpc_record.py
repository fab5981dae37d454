"""The record of RPCs, read back as it was written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.model.faults.rpc import RpcRow
from nodes.proxy.record import RowFile, read_rows

ROWS = [
    RpcRow(5, 1, 2, 52, 2, 7, "request", 101, pre_vote=True, epoch=4),
    RpcRow(9, 2, 1, 52, 2, 7, "response", 60, pre_vote=True, epoch=4, granted=False, action="delay"),
]


def test_rows_are_written_together_and_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    path, wakings = tmp_path / "rows.jsonl", list[Callable[[], None]]()
    file = RowFile(path, lambda _seconds, callback: wakings.append(callback))
    for row in ROWS:
        file.tell(row)
    assert path.read_bytes() == b""
    [flush] = wakings
    flush()
    with path.open("ab") as torn:
        torn.write(b"[11, 1, 2, 5")
    assert list(read_rows(path)) == ROWS
