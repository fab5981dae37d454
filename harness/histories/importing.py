"""Files and folders of histories to tables that checks can judge.

    with imported([Path("etcd_000.log"), Path("folder")], fs, False) as histories:
        for history in histories: history.path, history.rows, history.tables

Text is read once, a block of rows at a time, into one Parquet file for all; Parquet in the shape of our history table
is used where it is. A folder stands for the files in it, or, where it holds Parquet, for one history in chunks; a
run's directory stands for its history.

A row that cannot be read ends the import in one line with file and line, unless such rows are to be skipped: then they
are counted. What may live here: the way from paths to tables. What may not: formats.
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
from harness.histories.forms import Malformed, Processes, has_independent_keys, refuse_value, row_of, taken_apart
from harness.histories.texts import FORMATS, Forms, forms_of
from harness.model import NEMESIS, BadInput
from harness.model.records.tables import HISTORY

BLOCK_ROWS = 50_000
LOOKED_AT = 2_000
"""How many rows tell whether keys are independent."""

FILED = pa.schema([("file", pa.int32()), *HISTORY])
"""A history's row with the number of its file."""


@dataclass(slots=True)
class Imported:
    """One history: where it came from, its number, how long reading took, its rows, and the first malformed ones.

    tables are its own Parquet files; without any its rows are in the common table, under its number.
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

    histories: Sequence[Imported]
    common: Path | None


@contextmanager
def imported(paths: Sequence[Path], fs: Sequence[str], skip_malformed: bool) -> Iterator[Import]:
    """The histories at these paths, for as long as their tables are needed. fs: the words of operations.

    Raises BadInput for a path without a history, and for a malformed row unless those are to be skipped.
    """
    histories = [Imported(path, number, tables) for number, (path, tables) in enumerate(found_at(paths))]
    texts = [history for history in histories if not history.tables]
    with TemporaryDirectory(prefix="splitbrain-import-") as directory:
        common = Path(directory) / "histories.parquet"
        if texts:
            with parquet.ParquetWriter(common, FILED) as writer:
                for history in texts:
                    began = time.monotonic()
                    for block in blocks(history, fs, skip_malformed):
                        writer.write_table(block)
                    history.seconds = time.monotonic() - began
        for history in histories:
            if history.tables:
                look_over(history, fs)
        yield Import(histories, common if texts else None)


def found_at(paths: Sequence[Path]) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """Each history's path, with its chunks where it is Parquet."""
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


def blocks(history: Imported, fs: Sequence[str], skip_malformed: bool) -> Iterator[pa.Table]:
    """A text's rows as tables of FILED. Raises BadInput where a row is malformed, or there is none."""
    try:
        text = history.path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{history.path}: expected text in UTF-8: {error.reason} at byte {error.start}") from error
    rows = well_formed(history, forms_of(history.path.suffix, text), fs, skip_malformed)
    first = list(islice(rows, LOOKED_AT))
    if not first:
        raise BadInput(f"{history.path}: expected operations, found none")
    apart = has_independent_keys([row for _, row in first])
    block: list[dict[str, Any]] = []
    for line, row in chain(first, rows):
        try:
            plain = taken_apart(row) if apart else row
            refuse_value(plain, fs)
            block.append(filed(history, plain))
        except Malformed as error:
            note(history, line, error, skip_malformed)
        if len(block) == BLOCK_ROWS:
            yield pa.Table.from_pylist(block, FILED)
            block.clear()
    yield pa.Table.from_pylist(block, FILED)


def well_formed(
    history: Imported, forms: Forms, fs: Sequence[str], skip_malformed: bool
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows that are operations, with their lines."""
    for line, form in forms:
        try:
            if isinstance(form, Malformed):
                raise form
            row = row_of(form, fs)
            reason = history.processes.follow(row)
            if reason is not None:
                raise Malformed(reason)
            yield line, row
        except Malformed as error:
            note(history, line, error, skip_malformed)


def note(history: Imported, line: int, error: Malformed, skip_malformed: bool) -> None:
    """Count a malformed row, or raise BadInput."""
    message = f"{history.path}:{line}: {error}"
    if not skip_malformed:
        raise BadInput(message)
    history.malformed += 1
    history.first_malformed = history.first_malformed or message


def filed(history: Imported, row: dict[str, Any]) -> dict[str, Any]:
    """The row with its file and index, its value as JSON; an untimed one has its index for a time."""
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


def look_over(history: Imported, fs: Sequence[str]) -> None:
    """Count a Parquet history's rows. Raises BadInput where it is not whole, or holds what is no operation of ours."""
    began = time.monotonic()
    for chunk in history.tables:
        check_chunk(chunk, HISTORY)
    check_indexes(history.tables)
    for chunk in history.tables:
        with parquet.ParquetFile(chunk) as file:
            for batch in file.iter_batches(columns=["process", "type", "f"]):
                refuse_strangers(chunk, batch, fs)
                history.rows += batch.num_rows
    if not history.rows:
        raise BadInput(f"{history.path}: expected operations, found none")
    history.seconds = time.monotonic() - began


def refuse_strangers(chunk: Path, batch: pa.RecordBatch, fs: Sequence[str]) -> None:
    """Raise BadInput for the first type or f of a client that the model does not know."""
    kinds = pa.Table.from_batches([batch]).group_by(["type", "f"]).aggregate([("process", "max")])
    for row in kinds.to_pylist():
        form = {"process": 0 if row["process_max"] != NEMESIS else NEMESIS, "type": row["type"], "f": row["f"]}
        try:
            row_of(form, fs)
        except Malformed as error:
            raise BadInput(f"{chunk}: {error}") from error
