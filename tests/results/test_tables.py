"""The chunks of a run that has ended become one file, and no row is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from harness.chunks import MERGED, read_table
from harness.model import BadInput
from harness.model.records.tables import HISTORY
from results import tables
from results.tables import merge_chunks


def write(file: Path, *indexes: int, schema: pa.Schema = HISTORY) -> None:
    """A chunk with these history indexes; every other column is null."""
    file.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.Table.from_pylist([{"index": index} for index in indexes], schema), file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five rows in two chunks."""
    write(tmp_path / "history" / "0.parquet", 0, 1)
    write(tmp_path / "history" / "1.parquet", 2, 3, 4)
    return tmp_path / "history"


def test_chunks_of_a_run_that_has_ended_become_one(folder: Path) -> None:
    before = read_table(folder, HISTORY)
    merge_chunks(folder, HISTORY)
    assert [file.name for file in folder.iterdir()] == [MERGED]
    assert read_table(folder, HISTORY).equals(before)
    merge_chunks(folder, HISTORY)
    assert read_table(folder, HISTORY).equals(before)


def test_chunks_that_a_crash_left_beside_the_merged_one_are_ignored(folder: Path) -> None:
    before = read_table(folder, HISTORY)
    left = (folder / "0.parquet").read_bytes()
    merge_chunks(folder, HISTORY)
    (folder / "0.parquet").write_bytes(left)
    assert read_table(folder, HISTORY).equals(before)
    merge_chunks(folder, HISTORY)
    assert [file.name for file in folder.iterdir()] == [MERGED]


def test_chunks_with_other_columns_stay(folder: Path) -> None:
    write(folder / "1.parquet", 2, schema=HISTORY.append(pa.field("added", pa.int64())))
    merge_chunks(folder, HISTORY)
    assert sorted(file.name for file in folder.iterdir()) == ["0.parquet", "1.parquet"]


def test_large_tables_stay_in_chunks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MERGED_BYTES_MAX", 100)
    merge_chunks(folder, HISTORY)
    assert sorted(file.name for file in folder.iterdir()) == ["0.parquet", "1.parquet"]


def test_damaged_chunk_is_named_and_stays(folder: Path) -> None:
    damaged = folder / "1.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    with pytest.raises(BadInput, match=r"1\.parquet"):
        merge_chunks(folder, HISTORY)
    assert sorted(file.name for file in folder.iterdir()) == ["0.parquet", "1.parquet"]
