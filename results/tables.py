"""Reads a run's tables with pyarrow: all chunks of a folder as one table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.model import BadInput


def read_table(folder: Path, schema: pa.Schema) -> pa.Table:
    """The chunks of a folder in order of name; empty without chunks. Raises BadInput if one cannot be read."""
    chunks = [_read_chunk(path, schema) for path in sorted(folder.glob("[!.]*.parquet"))]
    return pa.concat_tables(chunks) if chunks else schema.empty_table()


def _read_chunk(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        return pq.ParquetFile(path).read(columns=schema.names).cast(schema)
    except (pa.ArrowInvalid, ValueError, KeyError, OSError) as error:
        raise BadInput(
            f"{path}: expected a complete Parquet chunk with the columns {', '.join(schema.names)}: {error}"
        ) from error
