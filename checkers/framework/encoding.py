"""Turns history rows into codes: the clients' operations, with numbers for words and short columns for texts.

    batches = read_batches([("history/000000.parquet", 0)])         # a file and one of its row groups
    operations = encoded(table, settings, ("read", "write", "cas")) # key, index, kind, f, process and value
    compacted(operations, initial)                                  # texts as numbers or with dictionaries

Columns of words (type, f, key, error) may have dictionaries, as Parquet stores them; each distinct word is then looked
at once. A worker that reads a large history itself takes a sixth of the time that Spark takes to read the same rows and
to hand them to Python.

Contains the way from a history's columns to codes. It does not group rows (keyed.py) and does not know Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from checkers.framework.columns import BLOCK_ROWS, compact
from checkers.framework.contract import JudgeSettings
from checkers.kernels.rows import FAIL, INFO, INVOKE, OK, Rows

MISMATCH: Final = "mismatch"
"""The error of a compare-and-set that failed because the register held another value, which is an observation."""

REFUSED: Final = 4
"""The kind of such a failure's row. Pairing treats it as any completion."""

READ_COLUMNS: Final = ("key", "index", "type", "f", "process", "value", "error")
"""The columns of a history that `encoded` needs."""

WORDS: Final = ["key", "type", "f", "error"]
"""Those of them with few distinct values, which are read with their dictionaries."""

TYPES: Final = ("invoke", "ok", "fail")
KINDS = np.array([INVOKE, OK, FAIL, INFO], np.int8)
"""By position in TYPES; the last is that of every other type."""

RowGroup = tuple[str, int]
"""A Parquet file and the number of one of its row groups."""


def row_groups(files: Iterable[Path], rows: int = BLOCK_ROWS) -> list[list[RowGroup]]:
    """The row groups of these files, in parts of at least so many rows; the last may have fewer."""
    parts: list[list[RowGroup]] = []
    in_part = rows
    for file in files:
        metadata = parquet.read_metadata(file)
        for group in range(metadata.num_row_groups):
            if in_part >= rows:
                parts.append([])
                in_part = 0
            parts[-1].append((str(file), group))
            in_part += metadata.row_group(group).num_rows
    return parts


def read_batches(groups: Iterable[RowGroup]) -> Iterator[pa.RecordBatch]:
    """The rows of these row groups, with the columns READ_COLUMNS."""
    for file, group in groups:
        with parquet.ParquetFile(file, read_dictionary=WORDS) as opened:
            yield from opened.iter_batches(BLOCK_ROWS, [group], [*READ_COLUMNS], use_threads=False)


def encoded(rows: pa.Table, settings: JudgeSettings, fs: Sequence[str]) -> pa.Table:
    """The clients' operations with these f: key, index, kind, f, process, value, and all further columns of rows.

    The code of an f is its position in fs.
    """
    f = codes_of(rows.column("f"), fs)
    is_wanted = (f >= 0) & pc.fill_null(pc.greater_equal(rows.column("process"), 0), False).to_numpy()
    if not is_wanted.all():
        rows, f = rows.filter(pa.array(is_wanted)), f[is_wanted]
    others = [name for name in rows.column_names if name not in READ_COLUMNS]
    columns = {
        "key": known_key(rows.column("key")),
        "index": rows.column("index"),
        "kind": pa.array(kinds(rows, f, settings, fs)),
        "f": pa.array(f),
    }
    return pa.table(columns | {name: rows.column(name) for name in ("process", "value", *others)})


def kinds(rows: pa.Table, f: Rows, settings: JudgeSettings, fs: Sequence[str]) -> Rows:
    """The kinds of the operations' rows (checkers/kernels/rows.py)."""
    kind = KINDS[codes_of(rows.column("type"), TYPES)]
    if settings.semantics == "knossos":
        is_read = np.isin(f, [code for code, word in enumerate(fs) if word in {"read", "get"}])
        returned = np.flatnonzero(is_read & (kind == OK))
        is_nil = pc.equal(pc.fill_null(rows.column("value").take(pa.array(returned)), "null"), "null")
        kind[returned[is_nil.to_numpy()]] = FAIL
    elif "cas" in fs:
        failed = np.flatnonzero((f == fs.index("cas")) & (kind == FAIL))
        error = rows.column("error").take(pa.array(failed))
        is_observation = (codes_of(error, [MISMATCH]) == 0) | error.is_null().to_numpy()
        kind[failed[is_observation]] = REFUSED
    return kind


def codes_of(column: pa.ChunkedArray, words: Sequence[str]) -> Rows:
    """The position of each text in words; -1 for others and null."""
    texts = with_dictionary(column)
    codes = pc.fill_null(pc.index_in(texts.dictionary, pa.array(words, pa.string())), -1).to_numpy()
    return np.append(codes, -1).astype(np.int8)[entries(texts)]


def partitions_of(key: pa.ChunkedArray, partitions: int) -> Rows:
    """The partition of each row's key, a number below partitions: the same on every worker."""
    texts = with_dictionary(key)
    hashes = pd.util.hash_array(texts.dictionary.to_numpy(zero_copy_only=False), categorize=False)
    return (hashes % np.uint64(partitions)).astype(np.int32)[entries(texts)]


def with_dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """A column of texts with a dictionary, which it may have already."""
    whole = column.combine_chunks()
    return whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()


def entries(texts: pa.DictionaryArray) -> Rows:
    """The position of each row's text in the dictionary, and the position after the last for null."""
    return pc.fill_null(texts.indices, len(texts.dictionary)).to_numpy()


def known_key(key: pa.ChunkedArray) -> pa.ChunkedArray:
    """The keys, null as the empty text."""
    if not key.null_count:
        return key
    return pc.fill_null(key.cast(pa.string()), "")


def compacted(operations: pa.Table, initial: str | None) -> pa.Table:
    """The operations with texts as numbers or with dictionaries, nil and `initial` (JSON) as null."""
    key, value = operations.column("key"), operations.column("value")
    is_nil = pc.is_in(value, pa.array(["null"] if initial is None else ["null", initial]))
    value = pc.if_else(is_nil, pa.scalar(None, pa.string()), value)
    rest = operations.drop_columns(["key", "value"])
    return rest.append_column("key", compact(key)).append_column("value", compact(value))
