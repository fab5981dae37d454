"""Exporting a damaged history names the chunk or the row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from harness.histories.exporting import export_lines
from harness.model import BadInput
from harness.model.records.tables import HISTORY

ROW = {"index": 0, "time_ns": 1, "process": 0, "type": "invoke", "f": "read", "value": "{bad"}


def write(run: Path, table: pa.Table) -> Path:
    (run / "history").mkdir()
    parquet.write_table(table, run / "history" / "00000001.parquet")
    return run / "history" / "00000001.parquet"


def test_value_that_is_no_json_is_refused_with_its_row(tmp_path: Path) -> None:
    write(tmp_path, pa.Table.from_pylist([ROW], schema=HISTORY))
    with pytest.raises(BadInput, match=r"history row 0: expected a value in JSON, found '\{bad'"):
        list(export_lines(tmp_path, True, False))


def test_text_that_is_not_utf_8_is_refused_with_its_chunk(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([ROW], schema=HISTORY)
    bytes_of_text = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    chunk = write(tmp_path, table.set_column(table.schema.get_field_index("f"), "f", bytes_of_text))
    with pytest.raises(BadInput, match=f"{chunk}: expected a whole Parquet file, but it cannot be read"):
        list(export_lines(tmp_path, True, False))
