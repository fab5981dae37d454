"""The tables of a stored run: their folders and schemas, and their storage as one file each once the run has ended.

A reader opens hundreds of small files slower than it reads them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as parquet

from harness.chunks import MERGED, check_indexes, chunk_files, read_table
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS, RECORDS, RPCS
from results.files import write_bytes
from results.store import RunDirectory

MERGED_BYTES_MAX: Final = 64 << 20
"""Tables with more are read as fast in chunks."""


def tables_of(run: RunDirectory) -> tuple[tuple[Path, pa.Schema], ...]:
    """The folder and the schema of each table, the history first."""
    tables = ((run.history, HISTORY), (run.observations, OBSERVATIONS), (run.rpcs, RPCS))
    return (*tables, (run.batches, BATCHES), (run.records, RECORDS))


def merge_tables(run: RunDirectory) -> None:
    """Store each table of a run that has ended as one chunk. Raises BadInput for a damaged table."""
    check_indexes(chunk_files(run.history, HISTORY))
    for folder, schema in tables_of(run):
        merge_chunks(folder, schema)


def merge_chunks(folder: Path, schema: pa.Schema) -> None:
    """Store a table as one chunk, MERGED, and remove the others, which it then holds.

    A crash at any point leaves all rows readable: the others are removed once MERGED is on disk, and are ignored from
    then on. Nothing is done where chunks have other columns than schema, or more than MERGED_BYTES_MAX. Raises BadInput
    for a damaged chunk, OSError if the disk refuses.
    """
    chunks = chunk_files(folder, schema)
    size_bytes = sum(chunk.stat().st_size for chunk in chunks)
    are_alike = all(parquet.read_schema(chunk).remove_metadata().equals(schema) for chunk in chunks)
    if len(chunks) > 1 and are_alike and size_bytes <= MERGED_BYTES_MAX:
        content = pa.BufferOutputStream()
        parquet.write_table(read_table(folder, schema), content)
        write_bytes(folder / MERGED, content.getvalue().to_pybytes())
    if (folder / MERGED).exists():
        for chunk in folder.glob("[!.]*.parquet"):
            if chunk.name != MERGED:
                chunk.unlink()
