"""Imports files and folders of histories as tables for checks.

    with import_histories([Path("etcd_000.log"), Path("folder")], fs, False) as imported:
        for history in imported.histories: history.path, history.rows, history.tables

All text files are converted, in blocks of rows, to one common Parquet file; Parquet files with the schema of our
history table are used in place. A folder means the files in it, or, if it contains Parquet, one history in chunks; a
run's directory means its history.

A malformed row ends the import with a message of one line that names file and line, unless malformed rows are skipped
and counted. Contains the conversion of paths to tables. Does not contain formats.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from harness.chunks import check_chunk, check_indexes, finished_chunks
from harness.histories.forms import Malformed, Processes, has_independent_keys, refuse_value, row_of, split_key
from harness.histories.texts import FORMATS, Forms, forms_of
from harness.model import NEMESIS, BadInput
from harness.model.records.tables import HISTORY

BLOCK_ROWS = 50_000
SAMPLE_ROWS = 2_000
"""How many rows determine whether keys are independent."""

COMMON_SCHEMA = pa.schema([("file", pa.int32()), *HISTORY])
"""A row of the common table: the number of its history and the row."""


@dataclass(slots=True)
class ImportedHistory:
    """A history: its path, its number, the seconds of reading, its number of rows, and its malformed rows.

    tables are its own Parquet files; if there are none, its rows are in the common table under its number.
    """

    path: Path
    number: int
    tables: tuple[Path, ...] = ()
    seconds: float = 0.0
    rows: int = 0
    malformed: int = 0
    first_malformed: str = ""
    processes: Processes = field(default_factory=Processes)


@dataclass(frozen=True, slots=True)
class Import:
    """All histories, and the common table of those that were text (None where none was)."""

    histories: Sequence[ImportedHistory]
    common: Path | None


@contextmanager
def import_histories(paths: Sequence[Path], fs: Sequence[str], skip_malformed: bool) -> Iterator[Import]:
    """The histories at these paths; the common table exists until the block ends. fs are the allowed functions.

    Raises BadInput for a path without a history, and for a malformed row unless skip_malformed.
    """
    histories = [ImportedHistory(path, number, tables) for number, (path, tables) in enumerate(found_at(paths))]
    texts = [history for history in histories if not history.tables]
    with TemporaryDirectory(prefix="splitbrain-import-") as directory:
        common = Path(directory) / "histories.parquet"
        if texts:
            with parquet.ParquetWriter(common, COMMON_SCHEMA) as writer:
                for history in texts:
                    start = time.monotonic()
                    for block in blocks(history, fs, skip_malformed):
                        writer.write_table(block)
                    history.seconds = time.monotonic() - start
        for history in histories:
            if history.tables:
                check_parquet(history, fs)
        yield Import(histories, common if texts else None)


def found_at(paths: Sequence[Path]) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """Each history's path, and its chunks if it is Parquet."""
    for path in paths:
        if path.is_dir():
            yield from found_in(path)
        elif path.suffix == ".parquet":
            yield path, (path,)
        elif path.suffix in FORMATS:
            yield path, ()
        elif path.exists():
            raise BadInput(f"{path}: expected a file ending in {', '.join(sorted({*FORMATS, '.parquet'}))}")
        else:
            raise BadInput(f"{path}: expected a file or folder of histories, found nothing")


def found_in(folder: Path) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """The histories in a folder."""
    chunks = finished_chunks(folder / "history") or finished_chunks(folder)
    files = sorted(file for file in folder.iterdir() if file.suffix in FORMATS and not file.name.startswith("."))
    if chunks:
        yield folder, tuple(chunks)
    elif files:
        yield from ((file, ()) for file in files)
    else:
        raise BadInput(f"{folder}: expected files ending in {', '.join(sorted({*FORMATS, '.parquet'}))}, found none")


def blocks(history: ImportedHistory, fs: Sequence[str], skip_malformed: bool) -> Iterator[pa.Table]:
    """A text's rows as tables of COMMON_SCHEMA. Raises BadInput for a malformed row, and if there are no rows."""
    try:
        text = history.path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{history.path}: expected text in UTF-8: {error.reason} at byte {error.start}") from error
    rows = well_formed(history, forms_of(history.path.suffix, text), fs, skip_malformed)
    first = list(islice(rows, SAMPLE_ROWS))
    if not first:
        raise BadInput(f"{history.path}: expected operations, found none")
    is_independent = has_independent_keys([row for _, row in first])
    block: list[dict[str, Any]] = []
    for line, row in chain(first, rows):
        try:
            plain = split_key(row) if is_independent else row
            refuse_value(plain, fs)
            block.append(common_row(history, plain))
        except Malformed as error:
            report_malformed(history, line, error, skip_malformed)
        if len(block) == BLOCK_ROWS:
            yield pa.Table.from_pylist(block, COMMON_SCHEMA)
            block.clear()
    yield pa.Table.from_pylist(block, COMMON_SCHEMA)


def well_formed(
    history: ImportedHistory, forms: Forms, fs: Sequence[str], skip_malformed: bool
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The well-formed rows, with their lines."""
    for line, form in forms:
        try:
            if isinstance(form, Malformed):
                raise form
            row = row_of(form, fs)
            reason = history.processes.check(row)
            if reason is not None:
                raise Malformed(reason)
            yield line, row
        except Malformed as error:
            report_malformed(history, line, error, skip_malformed)


def report_malformed(history: ImportedHistory, line: int, error: Malformed, skip_malformed: bool) -> None:
    """Count a malformed row, or raise BadInput."""
    message = f"{history.path}:{line}: {error}"
    if not skip_malformed:
        raise BadInput(message)
    history.malformed += 1
    history.first_malformed = history.first_malformed or message


def common_row(history: ImportedHistory, row: dict[str, Any]) -> dict[str, Any]:
    """The row of the common table: with file, index and JSON value; the index is the time if there is none."""
    index = history.rows
    history.rows += 1
    value, time_ns = row["value"], row["time_ns"]
    return {
        **row,
        "file": history.number,
        "index": index,
        "time_ns": index if time_ns is None else time_ns,
        "value": None if value is None else json.dumps(value),
    }


def check_parquet(history: ImportedHistory, fs: Sequence[str]) -> None:
    """Count a Parquet history's rows. Raises BadInput if it is incomplete or has operations that are not allowed."""
    start = time.monotonic()
    for chunk in history.tables:
        check_chunk(chunk, HISTORY)
    check_indexes(history.tables)
    for chunk in history.tables:
        with parquet.ParquetFile(chunk) as file:
            for batch in file.iter_batches(columns=["process", "type", "f"]):
                refuse_unknown_operations(chunk, batch, fs)
                history.rows += batch.num_rows
    if not history.rows:
        raise BadInput(f"{history.path}: expected operations, found none")
    history.seconds = time.monotonic() - start


def refuse_unknown_operations(chunk: Path, batch: pa.RecordBatch, fs: Sequence[str]) -> None:
    """Raise BadInput for a type, or an f of a client, that is not allowed."""
    kinds = pa.Table.from_batches([batch]).group_by(["type", "f"]).aggregate([("process", "max")])
    for row in kinds.to_pylist():
        form = {"process": 0 if row["process_max"] != NEMESIS else NEMESIS, "type": row["type"], "f": row["f"]}
        try:
            row_of(form, fs)
        except Malformed as error:
            raise BadInput(f"{chunk}: {error}") from error
