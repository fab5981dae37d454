"""Conversion of rows of the history table to operations."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from harness.model import NEMESIS, Op
from harness.model.stored_names import current_arguments, current_op


def ops_of(rows: pa.Table) -> Iterator[Op]:
    """Each row as an Op, with its value decoded from JSON."""
    for row in rows.to_pylist():
        value = None if row["value"] is None else json.loads(row["value"])
        if row["process"] == NEMESIS:
            row |= {"f": current_op(row["f"])}
            value = current_arguments(value)
        yield Op(**row | {"value": value})
