"""Imports histories as tables for checks.

    with import_histories(listed([Path("etcd_000.log"), Path("folder")]), fs, False) as imported:
        for history in imported.histories: history.path, history.rows, history.tables

All texts are converted, in blocks of rows, to one common Parquet file; Parquet files with the schema of our history
table are used in place. A history that cannot be read has a refusal, a message of one line that names file and line;
the others are imported all the same. Malformed rows are refused unless they are skipped and counted.

Contains the conversion of paths to tables. Does not contain formats.
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
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from harness.chunks import check_chunk, check_indexes, damage_of
from harness.histories.forms import (
    Malformed,
    Processes,
    has_independent_keys,
    refuse_depth,
    refuse_value,
    row_of,
    split_key,
)
from harness.histories.json_texts import json_value
from harness.histories.sources import STANDARD_INPUT, sources_at, text_of
from harness.histories.texts import Forms, forms_of
from harness.model import NEMESIS, BadInput
from harness.model.records.tables import HISTORY

BLOCK_ROWS = 50_000
SAMPLE_ROWS = 2_000
"""How many rows determine whether keys are independent."""

COMMON_SCHEMA = pa.schema([("file", pa.int32()), *HISTORY])
"""A row of the common table: the number of its history and the row."""

REQUIRED: Final = ("index", "time_ns", "process", "type", "f")
"""The columns of a history that are never null."""

PLAIN_JSON: Final = r'^(-?(0|[1-9][0-9]{0,17})|"[^"\\\x00-\x1f]*"|null|true|false)$'
"""Values that are evidently JSON. All others are parsed, which takes a hundred times as long."""


@dataclass(slots=True)
class ImportedHistory:
    """A history: its path, its number, the seconds of reading, its number of rows, and its malformed rows.

    tables are its own Parquet files; if there are none, its rows are in the common table under its number. has_times:
    every row has a time. refusal says why it cannot be checked; None if it can.
    """

    path: Path
    number: int
    tables: tuple[Path, ...] = ()
    size_bytes: int = 0
    seconds: float = 0.0
    rows: int = 0
    has_times: bool = True
    malformed: int = 0
    first_malformed: str = ""
    refusal: str | None = None
    processes: Processes = field(default_factory=Processes)


@dataclass(frozen=True, slots=True)
class Import:
    """All histories, and the common table of those that were text (None where none was)."""

    histories: Sequence[ImportedHistory]
    common: Path | None

    @property
    def accepted(self) -> Sequence[ImportedHistory]:
        """The histories that can be checked."""
        return [history for history in self.histories if history.refusal is None]


def listed(paths: Sequence[Path]) -> list[ImportedHistory]:
    """The histories at these paths, numbered and not yet read."""
    histories: list[ImportedHistory] = []
    for path in paths:
        try:
            if path == STANDARD_INPUT and any(history.path == path for history in histories):
                raise BadInput(f"{path}: expected standard input once, found it again")
            for source in sources_at(path):
                histories.append(ImportedHistory(source.path, len(histories), source.chunks, source.size_bytes))
        except BadInput as refused:
            histories.append(ImportedHistory(path, len(histories), refusal=str(refused)))
    return histories


@contextmanager
def import_histories(histories: Sequence[ImportedHistory], fs: Sequence[str], skip_malformed: bool) -> Iterator[Import]:
    """Import these histories; the common table exists until the block ends. fs are the allowed functions."""
    texts = [history for history in histories if not history.tables and history.refusal is None]
    with TemporaryDirectory(prefix="splitbrain-import-") as directory:
        common = Path(directory) / "histories.parquet"
        if texts:
            with parquet.ParquetWriter(common, COMMON_SCHEMA) as writer:
                for history in texts:
                    with _importing(history):
                        for block in blocks(history, fs, skip_malformed):
                            writer.write_table(block)
        for history in histories:
            if history.tables:
                with _importing(history):
                    check_parquet(history, fs)
        is_used = any(history.refusal is None for history in texts)
        yield Import(histories, common if is_used else None)


@contextmanager
def _importing(history: ImportedHistory) -> Iterator[None]:
    """Measure the time, and note why the history is refused."""
    start = time.monotonic()
    try:
        yield
    except BadInput as refused:
        history.refusal = str(refused)
    history.seconds = time.monotonic() - start


def blocks(history: ImportedHistory, fs: Sequence[str], skip_malformed: bool) -> Iterator[pa.Table]:
    """A text's rows as tables of COMMON_SCHEMA. Raises BadInput for a malformed row, and if there are no rows."""
    text, format_ = text_of(history.path)
    rows = well_formed(history, forms_of(format_, text), fs, skip_malformed)
    first = list(islice(rows, SAMPLE_ROWS))
    if not first:
        raise BadInput(f"{history.path}: expected operations, found none{_skipped(history)}")
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


def _skipped(history: ImportedHistory) -> str:
    return f"; the first malformed row is {history.first_malformed}" if history.malformed else ""


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
    history.has_times &= time_ns is not None
    return {
        **row,
        "file": history.number,
        "index": index,
        "time_ns": index if time_ns is None else time_ns,
        "value": None if value is None else json.dumps(value),
    }


def check_parquet(history: ImportedHistory, fs: Sequence[str]) -> None:
    """Count a Parquet history's rows. Raises BadInput if it is incomplete or has operations that are not allowed."""
    for chunk in history.tables:
        check_chunk(chunk, HISTORY)
    try:
        check_indexes(history.tables)
        for chunk in history.tables:
            with parquet.ParquetFile(chunk) as file:
                for batch in file.iter_batches(columns=HISTORY.names):
                    batch.validate(full=True)
                    refuse_invalid_values(chunk, batch)
                    refuse_unknown_operations(chunk, batch, fs)
                    history.rows += batch.num_rows
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        expected = "expected whole Parquet files, but one cannot be read"
        raise BadInput(f"{history.path}: {expected}: {damage_of(error)}") from error
    if not history.rows:
        raise BadInput(f"{history.path}: expected operations, found none")


def refuse_invalid_values(chunk: Path, batch: pa.RecordBatch) -> None:
    """Raise BadInput for a missing field, a negative time, or a value that is not JSON."""
    for name in REQUIRED:
        if batch[name].null_count:
            raise BadInput(f"{chunk}: expected {name} in every row, found a row without it")
    if batch.num_rows and pc.min(batch["time_ns"]).as_py() < 0:
        index = batch["index"][pc.index(pc.less(batch["time_ns"], 0), True).as_py()]
        raise BadInput(f"{chunk}: expected time_ns from 0 on, found a negative one at index {index}")
    unusual = batch.filter(pc.invert(pc.match_substring_regex(batch["value"], PLAIN_JSON)))
    for index, value in zip(unusual["index"].to_pylist(), unusual["value"].to_pylist(), strict=True):
        try:
            refuse_depth(json_value(value))
        except Malformed as error:
            raise BadInput(f"{chunk}: the value at index {index}: {error}") from error


def refuse_unknown_operations(chunk: Path, batch: pa.RecordBatch, fs: Sequence[str]) -> None:
    """Raise BadInput for a type, or an f of a client, that is not allowed."""
    kinds = pa.Table.from_batches([batch]).group_by(["type", "f"]).aggregate([("process", "max")])
    for row in kinds.to_pylist():
        form = {"process": 0 if row["process_max"] != NEMESIS else NEMESIS, "type": row["type"], "f": row["f"]}
        try:
            row_of(form, fs)
        except Malformed as error:
            raise BadInput(f"{chunk}: {error}") from error
