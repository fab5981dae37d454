"""From history rows on Spark to the kernels' arrays: rows of one key together, many keys to one call.

Keys are independent (a history is linearizable if and only if it is so key by key: Herlihy and Wing, 1990), so the
key is what rows are spread by. A Spark group for each key would cost a call of Python for each; instead a key's rows
are hashed into one of a few partitions, sorted there by key and index, and each batch of whole keys becomes one table
of arrays, which a kernel goes through in one compiled loop.

What may live here: that road. What may not: what is asked of the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from checkers.contract import JudgeSettings
from checkers.kernels.rows import FAIL, INFO, INVOKE, NIL, NOBODY, OK, READ, Rows, partners

MISMATCH = "mismatch"
"""The error of a compare-and-set that failed because the register held something else: that is an observation."""

REFUSED = 4
"""The kind of such a failure's row. To the pairing it is a completion like any other."""

REGISTER_FS = ("read", "write", "cas")
"""The words of a register's operations; a word's place is its code (checkers/kernels/rows.py)."""

APART = "\x1f"
"""Stands between the number of a file and the key, where rows of several files are judged together."""

TOLD_MAX = 80
"""How much of a value a finding tells."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Whole keys as the kernels take them (see checkers/kernels), and what it takes to name a row in a finding.

    Key i has the rows starts[i] to starts[i + 1]. texts are the values' JSON, by value number. fs are the words of the
    operations by code: the first returns a value, the others carry one.
    """

    names: list[str]
    starts: Rows
    index: Rows
    time_ns: Rows
    kind: Rows
    f: Rows
    process: Rows
    value: Rows
    node: Rows
    final: Rows
    partner: Rows
    texts: list[str]
    fs: tuple[str, ...] = REGISTER_FS

    def history_indexes(self, rows: Iterable[int]) -> list[int]:
        """The history indexes of these rows, in order, without those that stand for nobody or for never."""
        return sorted({int(self.index[row]) for row in rows if 0 <= row < len(self.index)})

    def describe(self, row: int) -> str:
        """The operation of this row in words, e.g. `write 3 (index 4 to 7)`."""
        ends = sorted({int(row), int(self.partner[row])} - {NOBODY})
        spoken = ends[-1] if self.f[row] == READ else ends[0]
        held = int(self.value[spoken])
        words = (
            self.fs[self.f[row]] if held == NIL and self.f[row] != READ else f"{self.fs[self.f[row]]} {self.told(held)}"
        )
        return f"{words} (index {' to '.join(str(self.index[end]) for end in ends)})"

    def told(self, value: int) -> str:
        """A value's JSON, or as much of it as a finding has room for."""
        text = self.texts[value]
        return text if len(text) <= TOLD_MAX else f"{text[:TOLD_MAX]}… ({len(text)} characters)"


def by_key(
    history: DataFrame,
    settings: JudgeSettings,
    judge: Callable[[Keys], pa.RecordBatch],
    schema: StructType,
    fs: tuple[str, ...] = REGISTER_FS,
) -> DataFrame:
    """judge's rows for every key's operations."""
    initial = settings.initial

    def judge_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in whole_keys(batches):
            yield judge(keys_of(table, fs, initial))

    rows = encoded(history, settings, fs).repartition("key").sortWithinPartitions("key", "index")
    return rows.mapInArrow(judge_all, schema)


def encoded(history: DataFrame, settings: JudgeSettings, fs: tuple[str, ...] = REGISTER_FS) -> DataFrame:
    """The clients' operations of these words, with small codes in place of words."""
    mismatch = (fn.col("f") == "cas") & (fn.col("error").isNull() | (fn.col("error") == MISMATCH))
    is_observation = mismatch & fn.lit(settings.semantics == "strict")
    nil_read = fn.col("f").isin("read", "get") & (fn.coalesce("value", fn.lit("null")) == "null")
    says_nothing = nil_read & fn.lit(settings.semantics == "knossos")
    type_is = fn.col("type").__eq__
    kind = (
        fn.when(type_is("invoke"), INVOKE)
        .when(type_is("ok"), fn.when(says_nothing, FAIL).otherwise(OK))
        .when(type_is("fail"), fn.when(is_observation, REFUSED).otherwise(FAIL))
        .otherwise(INFO)
    )
    f = fn.coalesce(*(fn.when(fn.col("f") == word, code) for code, word in enumerate(fs)))
    key = fn.coalesce("key", fn.lit(""))
    operations = history.where((fn.col("process") >= 0) & fn.col("f").isin(*fs))
    return operations.select(
        (fn.concat_ws(APART, "file", key) if "file" in history.columns else key).alias("key"),
        "index",
        "time_ns",
        kind.cast("tinyint").alias("kind"),
        f.cast("tinyint").alias("f"),
        "process",
        "value",
        optional(history, "node", fn.lit(0)).alias("node"),
        optional(history, "final", fn.lit(False)).alias("final"),
    )


def optional(frame: DataFrame, column: str, otherwise: Column) -> Column:
    """The column, or something else where it is absent or null."""
    return fn.coalesce(fn.col(column), otherwise) if column in frame.columns else otherwise


def whole_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Tables of whole keys from batches sorted by key: each batch's last key waits for the rest of its rows."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        last = batch.column("key")[-1]
        start = pc.index(batch.column("key"), last).as_py()
        if start > 0:
            yield pa.Table.from_batches([*waiting, batch.slice(0, start)])
            waiting = []
        elif waiting and waiting[-1].column("key")[-1] != last:
            yield pa.Table.from_batches(waiting)
            waiting = []
        waiting.append(batch.slice(start))
    if waiting:
        yield pa.Table.from_batches(waiting)


def keys_of(table: pa.Table, fs: tuple[str, ...] = REGISTER_FS, initial: str | None = None) -> Keys:
    """The table's rows as arrays; values, processes and keys become dense numbers, nil and `initial` (JSON) NIL."""
    key, names = numbered(table.column("key"))
    process, processes = numbered(table.column("process"))
    values = table.column("value")
    is_nil = pc.is_in(values, pa.array(["null"] if initial is None else ["null", initial]))
    value, texts = numbered(pc.if_else(is_nil, pa.scalar(None, pa.string()), values))
    node, _ = numbered(table.column("node"))
    names_of_numbers = ("index", "time_ns", "kind", "f")
    columns = {name: table.column(name).to_numpy().astype(np.int64) for name in names_of_numbers}
    return Keys(
        names=names,
        starts=np.append(np.flatnonzero(np.diff(key, prepend=-1)), len(key)),
        process=process,
        value=value + 1,
        node=node,
        final=table.column("final").to_numpy(),
        partner=partners(columns["kind"], process, key, len(processes)),
        texts=["nil" if initial is None else initial, *texts],
        fs=fs,
        **columns,
    )


def numbered(column: pa.ChunkedArray) -> tuple[Rows, list]:
    """Each row's number by first appearance (-1 for null), and the distinct values in that order."""
    encoded = column.combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    return encoded.indices.fill_null(-1).to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
