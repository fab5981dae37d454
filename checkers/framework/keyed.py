"""Turns history rows on Spark into the kernels' arrays: the rows of a key together, many keys in one call.

Keys are independent (a history is linearizable if and only if each key's is: Herlihy and Wing, 1990), so rows are
partitioned by key. A Spark group for each key would cost one Python call each. Instead keys are hashed into a few
partitions, rows travel there in blocks (checkers/framework/columns.py), numpy sorts them, and all keys of a partition
become one table of arrays, which a kernel processes in one compiled loop. A worker holds one partition at a time, so
more partitions need less memory, down to the largest key.

Contains this translation. It does not interpret the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from checkers.framework.by_run import RUN
from checkers.framework.columns import BLOCKS, Coded, Texts, coded, collected_batches, joined, packed, unpacked
from checkers.framework.contract import JudgeSettings
from checkers.framework.encoding import READ_COLUMNS, compacted, encoded, partitions_of, read_batches, row_groups
from checkers.kernels.rows import (
    NIL,
    NOBODY,
    PLACES_MAX,
    READ,
    Place,
    Rows,
    first_appearances,
    grouped,
    partners,
)
from harness.model import BadInput

REGISTER_FS = ("read", "write", "cas")
"""The f of a register's operations; the position is the code (checkers/kernels/rows.py)."""

RUN_SEPARATOR = "\x1f"
"""Separates a run's number from the key when several runs are checked together."""

NOTHING = np.zeros(0, np.int64)
"""A column that was not requested."""

VALUE_CHARACTERS_MAX = 80
"""How much of a value a finding shows."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Whole keys as the kernels take them (see checkers/kernels), and what findings need to describe a row.

    Key i has the rows starts[i] to starts[i + 1]. texts are the values' JSON, by value number. fs are the operations'
    f by code: the first returns a value, the others carry one. time_ns, node and final are empty unless by_key is
    called with them.
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
        """The sorted history indexes of these rows, without NOBODY and NEVER."""
        return sorted({int(self.index[row]) for row in rows if 0 <= row < len(self.index)})

    def describe(self, row: int) -> str:
        """The operation of this row, e.g. `write 3 (index 4 to 7)`."""
        ends = sorted({int(row), int(self.partner[row])} - {NOBODY})
        f, at = self.fs[self.f[row]], ends[-1] if self.f[row] == READ else ends[0]
        value = int(self.value[at])
        operation = f if value == NIL and self.f[row] != READ else f"{f} {self.shown(value)}"
        return f"{operation} (index {' to '.join(str(self.index[end]) for end in ends)})"

    def shown(self, value: int) -> str:
        """A value's JSON, shortened to VALUE_CHARACTERS_MAX."""
        text = self.texts[value]
        if len(text) <= VALUE_CHARACTERS_MAX:
            return text
        return f"{text[:VALUE_CHARACTERS_MAX]}… ({len(text)} characters)"


def by_key(
    history: DataFrame,
    settings: JudgeSettings,
    judge: Callable[[Keys], pa.RecordBatch],
    schema: StructType,
    fs: tuple[str, ...] = REGISTER_FS,
    also: tuple[str, ...] = (),
) -> DataFrame:
    """The rows that judge returns about all keys; also: which of time_ns, node and final it reads.

    The history has to be as it was recorded, except for the columns in also: where the settings name its files and
    also is empty, workers read these.
    """
    partitions = int(history.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)

    def compact_operations(batches: Iterable[pa.RecordBatch]) -> pa.Table:
        return compacted(encoded(pa.Table.from_batches(batches), settings, fs), settings.initial)

    def judge_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        listed = [batch for batch in batches if batch.num_rows]
        if listed:
            yield judge(keys_in(columns_of(compact_operations(listed)), fs, settings.initial))

    def judge_blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = unpacked(batches)
        if columns:
            yield judge(keys_in(columns, fs, settings.initial))

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in collected_batches(batches):
            operations = encoded(rows, settings, fs)
            partition = partitions_of(operations.column("key"), partitions)
            yield packed(compacted(operations, settings.initial), partition)

    if partitions == 1:
        return needed_rows(history, settings, fs, also).coalesce(1).mapInArrow(judge_rows, schema)
    if settings.history_files and not also:
        parts = row_groups(settings.history_files)

        def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in chain.from_iterable(batch.column("id").to_pylist() for batch in numbers):
                yield from pack(read_batches(parts[number]))

        blocks = history.sparkSession.range(0, len(parts), 1, len(parts)).mapInArrow(read, from_arrow_schema(BLOCKS))
    else:
        blocks = needed_rows(history, settings, fs, also).mapInArrow(pack, from_arrow_schema(BLOCKS))
    return blocks.repartitionById(partitions, "partition").mapInArrow(judge_blocks, schema)


def needed_rows(history: DataFrame, settings: JudgeSettings, fs: tuple[str, ...], also: tuple[str, ...]) -> DataFrame:
    """The rows of the clients' operations with these f, as READ_COLUMNS and also; keys are those of key_of_run."""
    operations = history.where((fn.col("process") >= 0) & fn.col("f").isin(*fs))
    key = key_of_run(fn.coalesce("key", fn.lit("")), settings).alias("key")
    # A frame of a notebook may have a column without any value, which has no type.
    texts = {name: fn.col(name).cast("string").alias(name) for name in ("type", "f", "value", "error")}
    return operations.select(key, *(texts.get(name, name) for name in READ_COLUMNS[1:]), *also)


def key_of_run(key: Column, settings: JudgeSettings) -> Column:
    """The key, as one that no other run has."""
    return key if len(settings.runs) == 1 else fn.concat_ws(RUN_SEPARATOR, RUN, key)


def origin(key: str, settings: JudgeSettings) -> tuple[int, str]:
    """The run of a key of key_of_run, and the key itself."""
    if len(settings.runs) == 1:
        return settings.runs[0], key
    run, _, own = key.partition(RUN_SEPARATOR)
    return int(run), own


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
    """The rows of whole keys as arrays: see keys_in. They may be in any order, and texts are texts."""
    return keys_in(columns_of(compacted(table, initial)), fs, initial)


def columns_of(table: pa.Table) -> dict[str, list[pa.Array]]:
    """The table's columns by name, as chunks."""
    return {name: table.column(name).chunks for name in table.column_names}


def keys_in(columns: dict[str, list[pa.Array]], fs: tuple[str, ...], initial: str | None) -> Keys:
    """Compact rows as arrays; values, processes, nodes and keys become dense numbers, null the value NIL.

    Removes each column from columns as it is converted: both forms of a large key would not fit into memory.
    """
    rows = sum(map(len, columns["index"]))
    if rows > PLACES_MAX:
        raise BadInput(f"checking a partition of the history: expected at most {PLACES_MAX:,} rows, found {rows:,}")
    index = joined(columns.pop("index"))
    order, starts, names = grouped_by_key(coded(columns.pop("key")), index)
    kind, f = (reordered(joined(columns.pop(name)).astype(np.int8), order) for name in ("kind", "f"))
    process = coded(columns.pop("process"))
    who, processes = reordered(process.codes, order), process.size
    del process
    partner = partners(kind, who, starts, processes)
    value, texts = numbered(coded(columns.pop("value")), order)
    node = numbered(coded(columns.pop("node")), order)[0] if "node" in columns else NOTHING
    others = {name: reordered(joined(columns.pop(name)), order) for name in ("time_ns", "final") if name in columns}
    return Keys(
        names=names,
        starts=starts,
        index=reordered(index, order),
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


def grouped_by_key(key: Coded, index: Rows) -> tuple[Rows | None, Rows, list[str]]:
    """The order that groups rows by key, then index (None if they are so), where each key starts, and the keys."""
    order = None if bool((index[1:] > index[:-1]).all()) else np.argsort(index, kind="stable").astype(Place)
    if key.size == 1:
        return order, np.array([0, len(index)]), key.texts(np.zeros(1, np.int64)).listed()
    grouping, starts, present = grouped(reordered(key.codes, order), key.size)
    return (grouping if order is None else order[grouping]), starts, key.texts(present).listed()


def reordered(numbers: Rows, order: Rows | None) -> Rows:
    """The numbers in this order; None keeps theirs."""
    return numbers if order is None else numbers[order]


def numbered(column: Coded, order: Rows | None) -> tuple[Rows, Texts]:
    """Each row's value as a number from 1 on by first appearance in this order (0 for null), and the values."""
    numbers, distinct = first_appearances(reordered(column.codes, order), column.size)
    return numbers, column.texts(distinct)
