"""The tables of a stored run: their folders and schemas, and their storage as one file each once the run has ended."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from harness.chunks import check_indexes, chunk_files
from harness.engine.records import merge_chunks
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS, RECORDS, RPCS
from results.store import RunDirectory


def tables_of(run: RunDirectory) -> tuple[tuple[Path, pa.Schema], ...]:
    """The folder and the schema of each table, the history first."""
    tables = ((run.history, HISTORY), (run.observations, OBSERVATIONS), (run.rpcs, RPCS))
    return (*tables, (run.batches, BATCHES), (run.records, RECORDS))


def merge_tables(run: RunDirectory) -> None:
    """Store each table of a run that has ended as one file. Raises BadInput for a damaged table."""
    check_indexes(chunk_files(run.history, HISTORY))
    for folder, schema in tables_of(run):
        merge_chunks(folder, schema)
