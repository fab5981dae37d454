"""Chunks of recorded rows: how they are encoded, written whole, and read back as values.

    for op in read_history(run / "history"): ...

Each chunk is a Parquet file. While it is written its name begins with a dot, and readers skip it. Reading and checking
chunks is harness.chunks. This module maps values to rows and back; it has no buffers, threads or clocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.chunks import read_chunks
from harness.durable_files import replace_file
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
    replace_file(path, memoryview(sink.getvalue()))


def read_history(folder: Path) -> Iterator[Op]:
    """The operations recorded in a `history` folder, in index order; a chunk is read when its rows are needed.

    Raises BadInput without such a folder, for a damaged chunk, and where a row is missing between two others.
    """
    expected = 0
    for table in _recorded(folder, HISTORY):
        for row in table.to_pylist():
            if row["index"] != expected:
                raise BadInput(f"{folder}: expected the operation with index {expected}, got {row['index']}")
            expected += 1
            yield Op(**row | {"value": None if row["value"] is None else json.loads(row["value"])})


def read_observations(folder: Path) -> Iterator[Observation]:
    """The observations recorded in an `observations` folder, in the order they were made. Raises BadInput likewise."""
    for table in _recorded(folder, OBSERVATIONS):
        for row in table.to_pylist():
            yield Observation(**row)


def _recorded(folder: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    if not folder.is_dir():
        raise BadInput(f"{folder}: expected a folder of Parquet chunks, found none")
    return read_chunks(folder, schema)
