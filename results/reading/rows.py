"""Conversion of the rows of stored tables to operations and observations."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from harness.model import NEMESIS, Observation, Op
from harness.model.stored_names import current_arguments, current_op


def ops_of(rows: pa.Table) -> Iterator[Op]:
    """Each row as an Op, with its value decoded from JSON."""
    for row in rows.to_pylist():
        value = None if row["value"] is None else json.loads(row["value"])
        if row["process"] == NEMESIS:
            row |= {"f": current_op(row["f"])}
            value = current_arguments(value)
        yield Op(**row | {"value": value})


def nemesis_ops_of(history: pa.Table) -> Iterator[Op]:
    """The rows of the nemesis in a history: two of each operation, and one of each mark."""
    return ops_of(history.filter(pc.equal(history["process"], NEMESIS)))


def observations_of(rows: pa.Table) -> list[Observation]:
    """Each row of the table of observations."""
    return [Observation(**row) for row in rows.to_pylist()]
