"""Chunks of recorded rows: encodes, atomically writes and reads them.

Each chunk is a Parquet file; a folder's chunks are read in name order. A file whose name begins with a dot was being
written when its writer died; readers, including Spark, ignore it.

    for op in read_history(run / "history"): ...

Contains the mapping between our values and Parquet. Does not contain buffers, threads or clocks.
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
"""A row's values in the order of its schema's columns."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def history_row(op: Op) -> Row:
    """The row of an operation, with its value as JSON text."""
    value = None if op.value is None else _encode(op.value)
    return op.index, op.time_ns, op.process, op.type, op.f, op.key, value, op.node, op.error


def observation_row(observation: Observation) -> Row:
    """The row of an observation."""
    return tuple([getattr(observation, name) for name in OBSERVATIONS.names])


def write_chunk(path: Path, schema: pa.Schema, rows: Sequence[Row]) -> None:
    """Write a chunk atomically and durably. Raises OSError if the disk refuses."""
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
    """The chunks of a folder in order. Raises BadInput for a chunk that is damaged or has other columns."""
    if not folder.is_dir():
        raise BadInput(f"{folder}: expected a folder of Parquet chunks, found none")
    return (_read_chunk(path, schema) for path in sorted(folder.glob("[!.]*.parquet")))


def _read_chunk(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"{path}: expected a complete Parquet chunk, but reading it failed: {error}") from error
    if not table.schema.equals(schema):
        raise BadInput(f"{path}: expected the columns {', '.join(schema.names)}, got {', '.join(table.schema.names)}")
    return table


def read_history(folder: Path) -> Iterator[Op]:
    """The operations of a `history` folder, in index order, read lazily.

    Raises BadInput for a damaged chunk and for a missing row before the last.
    """
    expected = 0
    for table in read_chunks(folder, HISTORY):
        for row in table.to_pylist():
            if row["index"] != expected:
                raise BadInput(f"{folder}: expected the operation with index {expected}, got {row['index']}")
            expected += 1
            yield Op(**row | {"value": None if row["value"] is None else json.loads(row["value"])})


def read_observations(folder: Path) -> Iterator[Observation]:
    """The observations of an `observations` folder, in the order of recording."""
    for table in read_chunks(folder, OBSERVATIONS):
        for row in table.to_pylist():
            yield Observation(**row)
