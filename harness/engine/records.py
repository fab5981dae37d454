"""Chunks of recorded rows: how they are encoded, written whole, and read back.

A folder of chunks is read in name order; each chunk is a Parquet file of its own. A file whose name begins with a
dot is one that was being written when its writer died: readers, Spark's too, pass over it.

    for op in read_history(run / "history"): ...

What may live here: the mapping between our values and Parquet. What may not: buffers, threads, clocks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.model import BadInput, Observation, Op
from harness.model.records.tables import HISTORY, OBSERVATIONS

Row = tuple[Any, ...]
"""One row's values in the order of its schema's columns."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def history_row(op: Op) -> Row:
    """The row of an operation, its value as JSON text."""
    value = None if op.value is None else _encode(op.value)
    return op.index, op.time_ns, op.process, op.type, op.f, op.key, value, op.node, op.error


def observation_row(observation: Observation) -> Row:
    """The row of an observation."""
    return tuple([getattr(observation, name) for name in OBSERVATIONS.names])


def write_chunk(path: Path, schema: pa.Schema, rows: Sequence[Row]) -> None:
    """Write a chunk so that it is there whole and durable, or not at all. Raises OSError if the disk refuses."""
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), sink)
    unfinished = path.with_name(f".{path.name}")
    try:
        _write_synced(unfinished, sink.getvalue())
        unfinished.rename(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _write_synced(path: Path, content: pa.Buffer) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_chunks(folder: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """The chunks of a folder in order. Raises BadInput for one that is damaged or has other columns."""
    if not folder.is_dir():
        raise BadInput(f"{folder}: expected a folder of Parquet chunks, found none")
    return (_read_chunk(path, schema) for path in sorted(folder.glob("[!.]*.parquet")))


def _read_chunk(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"{path}: expected a whole Parquet chunk, but it cannot be read: {error}") from error
    if not table.schema.equals(schema):
        raise BadInput(f"{path}: expected the columns {', '.join(schema.names)}, got {', '.join(table.schema.names)}")
    return table


def read_history(folder: Path) -> Iterator[Op]:
    """The operations recorded in a `history` folder, in index order, read as they are asked for.

    Raises BadInput for a damaged chunk, and where a row is missing between two others.
    """
    expected = 0
    for table in read_chunks(folder, HISTORY):
        for row in table.to_pylist():
            if row["index"] != expected:
                raise BadInput(f"{folder}: expected the operation of index {expected}, got {row['index']}")
            expected += 1
            yield Op(**row | {"value": None if row["value"] is None else json.loads(row["value"])})


def read_observations(folder: Path) -> Iterator[Observation]:
    """The observations recorded in an `observations` folder, in the order they were made."""
    for table in read_chunks(folder, OBSERVATIONS):
        for row in table.to_pylist():
            yield Observation(**row)
