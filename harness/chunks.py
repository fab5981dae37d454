"""Reads the tables of a run: folders of Parquet chunks, each chunk checked before a row of it is used.

    table = read_table(run / "history", HISTORY)
    files = chunk_files(run / "history", HISTORY)      # for a reader of its own, such as Spark's

The recorder writes a chunk under a name that begins with a dot and renames it when it is whole, so a dot-file is
unfinished and is skipped. The chunks of a table, in name order, are the table. If there is a chunk MERGED, it holds all
others of a run that has ended (results.tables.merge_chunks) and is the table alone. A chunk that is truncated,
that lacks a column or that has one of another type is refused with BadInput in one line that names the file. Tables of
earlier releases lack the columns of ADDED_LATER; they read as null. Additional columns are ignored.

This module is on the level of harness.model, below every package that reads tables. It knows files and columns. It does
not know what rows mean, and it does not write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as parquet

from harness.model.errors import BadInput
from harness.model.records.tables import ADDED_LATER

MERGED: Final = "merged.parquet"


def chunk_files(folder: Path, schema: pa.Schema) -> list[Path]:
    """The finished chunks of a folder in name order; none where there is no folder.

    Raises BadInput for a chunk that is not whole or whose columns are not those of schema.
    """
    files = finished_chunks(folder)
    for file in files:
        check_chunk(file, schema)
    return files


def finished_chunks(folder: Path) -> list[Path]:
    """The finished chunks of a folder in name order, not checked."""
    merged = folder / MERGED
    return [merged] if merged.exists() else sorted(folder.glob("[!.]*.parquet"))


def check_chunk(file: Path, schema: pa.Schema) -> None:
    """Raise BadInput unless the file's footer can be read and has the columns of schema."""
    with _reading(file, "its footer"):
        found = parquet.read_schema(file)
    for column in schema:
        at = found.get_field_index(column.name)
        if at < 0 and column.name in ADDED_LATER:
            continue
        if at < 0 or found.field(at).type != column.type:
            kind = "no such column" if at < 0 else str(found.field(at).type)
            raise BadInput(f"{file}: expected column {column.name} of type {column.type}, found {kind}")


def check_indexes(files: Sequence[Path]) -> None:
    """Raise BadInput unless the indexes of a history's chunks run from 0 on without a gap or a repetition.

    Rows may be in any order within a chunk, and chunks in any order of names.
    """
    ranges = sorted((*_index_range(file), file) for file in files if rows_in([file]))
    expected = 0
    for first, last, rows, file in ranges:
        if first != expected or last - first + 1 != rows:
            raise BadInput(f"{file}: expected {rows} history rows from index {expected} on, found {first} to {last}")
        expected = last + 1


def _index_range(file: Path) -> tuple[int, int, int]:
    """The lowest and the highest history index in a chunk, and its number of rows."""
    with _reading(file, "its indexes"):
        numbers = parquet.read_table(file, columns=["index"]).column("index").to_numpy()
        return int(numbers.min()), int(numbers.max()), len(numbers)


def rows_in(files: Sequence[Path]) -> int:
    """The number of rows in the chunks, from their footers."""
    return sum(map(_rows_in, files))


def _rows_in(file: Path) -> int:
    with _reading(file, "its footer"):
        return int(parquet.read_metadata(file).num_rows)


def read_chunks(folder: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """The chunks of a folder, each read when it is needed. Raises BadInput as chunk_files does, for all at once."""
    return (_read_chunk(file, schema) for file in chunk_files(folder, schema))


def read_table(folder: Path, schema: pa.Schema) -> pa.Table:
    """The chunks of a folder as one table; empty where there are none. Raises BadInput as chunk_files does."""
    return read_files(chunk_files(folder, schema), schema)


def read_files(files: Sequence[Path], schema: pa.Schema) -> pa.Table:
    """These chunks of chunk_files as one table. Raises BadInput for one that is damaged behind its footer."""
    chunks = [_read_chunk(file, schema) for file in files]
    return pa.concat_tables(chunks) if chunks else schema.empty_table()


def _read_chunk(file: Path, schema: pa.Schema) -> pa.Table:
    """The columns of schema, in its order; raises BadInput where the pages behind a sound footer are damaged."""
    with _reading(file, "it"):
        table = parquet.ParquetFile(file).read(columns=schema.names)
        table.validate(full=True)  # else text that is not UTF-8 fails where it is used
    columns = [
        table.column(name) if name in table.column_names else pa.nulls(len(table), schema.field(name).type)
        for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)


@contextmanager
def _reading(file: Path, what: str) -> Iterator[None]:
    """Raise BadInput where the file turns out to be damaged."""
    try:
        yield
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = damage_of(error)
        raise BadInput(f"{file}: expected a whole Parquet file, but {what} cannot be read: {reason}") from error


def damage_of(error: Exception) -> str:
    """Why a Parquet file cannot be read, in one line."""
    if isinstance(error, UnicodeDecodeError):
        return "a text in it is not UTF-8"
    return str(error).splitlines()[0]
