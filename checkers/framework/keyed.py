"""From history rows on Spark to the kernels' arrays: rows of one key together, many keys to one call.

Keys are independent (a history is linearizable if and only if it is so key by key: Herlihy and Wing, 1990), so the
key is what rows are spread by. A Spark group for each key would cost a call of Python for each; instead a key's rows
are hashed into one of a few partitions, carried there in blocks (checkers/columns.py), put in order by numpy, and all
keys of a partition become one table of arrays, which a kernel goes through in one compiled loop. A worker holds one
partition at a time: with more of them it needs less memory, as far as the largest key allows.

What may live here: that road. What may not: what is asked of the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from checkers.framework.columns import BLOCKS, Coded, Texts, coded, compact, joined, narrow, packed, unpacked
from checkers.framework.contract import JudgeSettings
from checkers.kernels.rows import (
    FAIL,
    INFO,
    INVOKE,
    NIL,
    NOBODY,
    OK,
    PLACES_MAX,
    READ,
    Place,
    Rows,
    first_appearances,
    grouped,
    partners,
)
from harness.model import BadInput

MISMATCH = "mismatch"
"""The error of a compare-and-set that failed because the register held something else: that is an observation."""

REFUSED = 4
"""The kind of such a failure's row. To the pairing it is a completion like any other."""

REGISTER_FS = ("read", "write", "cas")
"""The words of a register's operations; a word's place is its code (checkers/kernels/rows.py)."""

APART = "\x1f"
"""Stands between the number of a file and the key, where rows of several files are judged together."""

NOTHING = np.zeros(0, np.int64)
"""A column that nobody asked for."""

TOLD_MAX = 80
"""How much of a value a finding tells."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Whole keys as the kernels take them (see checkers/kernels), and what it takes to name a row in a finding.

    Key i has the rows starts[i] to starts[i + 1]. texts are the values' JSON, by value number. fs are the words of the
    operations by code: the first returns a value, the others carry one. time_ns, node and final are empty where by_key
    was not asked for them.
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
    texts: Sequence[str]
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
    also: tuple[str, ...] = (),
) -> DataFrame:
    """judge's rows for every key's operations; also: which of time_ns, node and final it reads."""
    compact_rows, to_keys = (
        partial(compacted, initial=settings.initial),
        partial(keys_in, fs=fs, initial=settings.initial),
    )

    def judge_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        listed = [batch for batch in batches if batch.num_rows]
        if listed:
            yield judge(to_keys(columns_of(compact_rows(pa.Table.from_batches(listed)))))

    def judge_blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = unpacked(batches)
        if columns:
            yield judge(to_keys(columns))

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return packed(batches, compact_rows)

    rows = encoded(history, settings, fs, also)
    partitions = int(history.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    if partitions == 1:
        return rows.coalesce(1).mapInArrow(judge_rows, schema)
    # Spark's own choice of a partition for a key, so that a block goes where its rows would have gone.
    partition = fn.pmod(fn.hash("key"), fn.lit(partitions)).alias("partition")
    blocks = rows.select(partition, "*").mapInArrow(pack, from_arrow_schema(BLOCKS))
    return blocks.repartition(partitions, "key").mapInArrow(judge_blocks, schema)


def encoded(history: DataFrame, settings: JudgeSettings, fs: tuple[str, ...], also: tuple[str, ...]) -> DataFrame:
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
        kind.cast("tinyint").alias("kind"),
        f.cast("tinyint").alias("f"),
        "process",
        "value",
        *also,
    )


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
    """The rows of whole keys, in any order and with texts as texts, as arrays: see keys_in."""
    return keys_in(columns_of(compacted(table, initial)), fs, initial)


def columns_of(table: pa.Table) -> dict[str, list[pa.Array]]:
    """The table's columns by name, in their chunks."""
    return {name: table.column(name).chunks for name in table.column_names}


def compacted(table: pa.Table, initial: str | None) -> pa.Table:
    """The rows with their texts as numbers or in dictionaries, nil and `initial` (JSON) as null."""
    key, value = table.column("key"), table.column("value")
    is_nil = pc.is_in(value, pa.array(["null"] if initial is None else ["null", initial]))
    value = pc.if_else(is_nil, pa.scalar(None, pa.string()), value)
    rows = table.drop_columns(["key", "value"])
    rows = rows.append_column("key", compact(key)).append_column("value", compact(value))
    return pa.table({name: narrow(rows.column(name)) for name in rows.column_names})


def keys_in(columns: dict[str, list[pa.Array]], fs: tuple[str, ...], initial: str | None) -> Keys:
    """Compact rows as arrays; values, processes, nodes and keys become dense numbers, null the value NIL.

    Each column is taken out of columns as its turn comes, since both forms of a large key would not fit at once.
    """
    rows = sum(map(len, columns["index"]))
    if rows > PLACES_MAX:
        raise BadInput(
            f"judging a partition of the history: expected at most {PLACES_MAX:,} rows in it, found {rows:,}"
        )
    index = joined(columns.pop("index"))
    order, starts, names = together(coded(columns.pop("key")), index)
    kind, f = (taken(joined(columns.pop(name)).astype(np.int8), order) for name in ("kind", "f"))
    process = coded(columns.pop("process"))
    who, processes = taken(process.codes, order), process.size
    del process
    partner = partners(kind, who, starts, processes)
    value, texts = numbered(coded(columns.pop("value")), order)
    node = numbered(coded(columns.pop("node")), order)[0] if "node" in columns else NOTHING
    others = {name: taken(joined(columns.pop(name)), order) for name in ("time_ns", "final") if name in columns}
    return Keys(
        names=names,
        starts=starts,
        index=taken(index, order),
        kind=kind,
        f=f,
        process=who,
        value=value,
        node=node,
        partner=partner,
        texts=Texts(texts.known, ("nil" if initial is None else initial,)),
        fs=fs,
        **({"time_ns": NOTHING, "final": NOTHING} | others),
    )


def together(key: Coded, index: Rows) -> tuple[Rows | None, Rows, list[str]]:
    """The order that brings each key's rows together by index (None: they are), where each key starts, and names."""
    order = None if bool((index[1:] > index[:-1]).all()) else np.argsort(index, kind="stable").astype(Place)
    if key.size == 1:
        return order, np.array([0, len(index)]), key.texts(np.zeros(1, np.int64)).listed()
    grouping, starts, present = grouped(taken(key.codes, order), key.size)
    return (grouping if order is None else order[grouping]), starts, key.texts(present).listed()


def taken(numbers: Rows, order: Rows | None) -> Rows:
    """The numbers in this order, None being the one that they are in."""
    return numbers if order is None else numbers[order]


def numbered(column: Coded, order: Rows | None) -> tuple[Rows, Texts]:
    """Each row's number by first appearance in this order, from 1 on (0 for null), and what the numbers stand for."""
    numbers, distinct = first_appearances(taken(column.codes, order), column.size)
    return numbers, column.texts(distinct)
