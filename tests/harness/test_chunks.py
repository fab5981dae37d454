"""Chunks are read only if they are complete, have the columns of their table, and leave no gap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from harness.chunks import check_indexes, chunk_files, read_chunks, read_table, rows_in
from harness.model import BadInput
from harness.model.records.tables import ADDED_LATER, BATCHES, HISTORY, RPCS


def write(file: Path, *indexes: int, schema: pa.Schema = HISTORY) -> Path:
    """A chunk with these history indexes; every other column is null."""
    file.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.Table.from_pylist([{"index": index} for index in indexes], schema), file)
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five rows in two chunks."""
    write(tmp_path / "history" / "0.parquet", 0, 1)
    write(tmp_path / "history" / "1.parquet", 2, 3, 4)
    return tmp_path / "history"


def test_chunks_are_one_table_in_name_order(folder: Path) -> None:
    assert read_table(folder, HISTORY).column("index").to_pylist() == [0, 1, 2, 3, 4]
    assert [len(chunk) for chunk in read_chunks(folder, HISTORY)] == [2, 3]
    assert rows_in(chunk_files(folder, HISTORY)) == 5


def test_a_missing_folder_is_an_empty_table(tmp_path: Path) -> None:
    table = read_table(tmp_path / "rpcs", HISTORY)
    assert (len(table), table.schema) == (0, HISTORY)


@pytest.mark.parametrize("name", [".2.parquet", "2.parquet.tmp"])
def test_an_unfinished_chunk_is_skipped(name: str, folder: Path) -> None:
    (folder / name).write_bytes(b"half a chunk")
    assert len(read_table(folder, HISTORY)) == 5


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def drop_a_column(file: Path) -> None:
    parquet.write_table(parquet.read_table(file).drop_columns(["process"]), file)


def change_a_type(file: Path) -> None:
    table = parquet.read_table(file)
    at = table.schema.get_field_index("index")
    parquet.write_table(table.set_column(at, "index", table.column("index").cast(pa.int32())), file)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (truncate, "expected a whole Parquet file, but its footer cannot be read: "),
        (empty, "expected a whole Parquet file, but its footer cannot be read: "),
        (drop_a_column, "expected column process of type int32, found no such column"),
        (change_a_type, "expected column index of type int64, found int32"),
    ],
)
@pytest.mark.parametrize("read", [chunk_files, read_chunks, read_table])
def test_a_damaged_chunk_is_refused_by_name_in_one_line(
    damage: Callable[[Path], None], reason: str, read: Callable, folder: Path
) -> None:
    file = folder / "1.parquet"
    damage(file)
    with pytest.raises(BadInput) as refusal:
        read(folder, HISTORY)
    assert str(refusal.value).startswith(f"{file}: {reason}")
    assert "\n" not in str(refusal.value)


def test_damage_behind_a_sound_footer_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "history" / "0.parquet", *range(1000))
    content = file.read_bytes()
    file.write_bytes(content[:4] + b"\xff" * 200 + content[204:])
    with pytest.raises(BadInput, match=r"0\.parquet: expected a whole Parquet file, but it cannot be read: "):
        read_table(tmp_path / "history", HISTORY)


@pytest.mark.parametrize(("schema", "column"), [(BATCHES, "partition"), (RPCS, "source")], ids=["batches", "rpcs"])
def test_columns_that_were_added_later_read_as_null(tmp_path: Path, schema: pa.Schema, column: str) -> None:
    older = pa.schema([each for each in schema if each.name not in ADDED_LATER])
    parquet.write_table(pa.Table.from_pylist([{column: 1}], older), tmp_path / "0.parquet")
    table = read_table(tmp_path, schema)
    assert table.schema == schema
    added = sorted(ADDED_LATER & set(schema.names))
    assert added
    assert table.select(added).to_pylist() == [dict.fromkeys(added)]


def test_additional_columns_are_ignored(tmp_path: Path) -> None:
    write(tmp_path / "0.parquet", 0, schema=pa.schema([("file", pa.int32()), *HISTORY]))
    assert read_table(tmp_path, HISTORY).schema == HISTORY


def test_indexes_without_a_gap_are_accepted_in_any_order(tmp_path: Path) -> None:
    check_indexes(
        [write(tmp_path / "0.parquet", 4, 3), write(tmp_path / "1.parquet"), write(tmp_path / "2.parquet", 2, 0, 1)]
    )


@pytest.mark.parametrize(
    ("chunks", "reason"),
    [
        ([[1, 2]], "0.parquet: expected 2 history rows from index 0 on, found 1 to 2"),
        ([[0, 1], [3]], "1.parquet: expected 1 history rows from index 2 on, found 3 to 3"),
        ([[0, 1], [1, 2]], "1.parquet: expected 2 history rows from index 2 on, found 1 to 2"),
        ([[0, 2]], "0.parquet: expected 2 history rows from index 0 on, found 0 to 2"),
    ],
    ids=["the beginning is missing", "a chunk is missing", "an index is repeated", "a row is missing"],
)
def test_a_gap_between_indexes_is_refused(chunks: list[list[int]], reason: str, tmp_path: Path) -> None:
    files = [write(tmp_path / f"{at}.parquet", *indexes) for at, indexes in enumerate(chunks)]
    with pytest.raises(BadInput) as refusal:
        check_indexes(files)
    assert str(refusal.value).endswith(reason)
