"""Turns a history's transactions into their effects: one row for each version that a transaction wrote or saw.

A transaction is an operation f="txn" whose value is a list of micro-operations, in one of three forms:

    list      ["append", "x", 3], ["r", "x", [1, 2, 3]]             a read returns the whole list, null an empty one
    register  ["w", "x", [position, value]], ["r", "x", [position, value]]    null is the version before the first
    log       ["send", "tx-0", [offset, value]], ["poll", {"tx-0": [[offset, value], …]}]

and f="drain" reads a key of a log from beginning to end: key "tx-0", value [[offset, value], …]. An invocation has the
value alone if the position is not known yet, and ["abort"] at its end if the transaction is to be aborted. At ["fence"]
a newer producer fenced the transaction's own. Values are unique in a key.

A transaction is identified by the index of its invocation. Its effects, as (what, key, value, position, place, last):

    wrote    a version; last marks the transaction's last of its key
    saw      a version, with position NOWHERE and value null for the one before the first; last marks the last version
             by others, which makes the reader depend on its writer
    own      a log's record that the transaction had sent itself, polled before it ended
    drained  a record of a drained log; value is null in the row that marks a complete drain
    fence    another producer fenced the transaction's before its end was requested
    against  micro-operations of one transaction contradict each other: value says how

Contains single transactions. checkers/transactions/edges.py relates them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.framework.by_run import RUN, runs_with
from checkers.framework.contract import JudgeSettings
from checkers.kafka_log.zombies import is_fenced

NOWHERE = -1
"""The position of the version before the first."""

EFFECTS = pa.schema(
    [
        ("run", pa.int32()),
        ("txn", pa.int64()),
        ("end", pa.int64()),
        ("status", pa.string()),
        ("fenced", pa.bool_()),
        ("form", pa.string()),
        ("what", pa.string()),
        ("key", pa.string()),
        ("value", pa.string()),
        ("position", pa.int64()),
        ("place", pa.int32()),
        ("last", pa.bool_()),
    ]
)

STATUS = 2
"""The place of the status among txn, end, status and fenced."""

FORM_OF_WRITE: Mapping[str, str] = {"append": "list", "w": "register", "send": "log"}

MicroOp = Sequence[Any]
MicroOps = Sequence[MicroOp]
Effect = tuple[str, str, str | None, str | None, int | None, int, bool]
"""Everything but run, txn, end, status and fenced, in the schema's order."""


def transactions(history: DataFrame) -> DataFrame:
    """(run, txn, end, status, fenced, process, f, key, value): each transaction and drain; one without an end is info.

    fenced is whether its error means that its producer was fenced. value is that of the completion if it has one, else
    that of the invocation.
    """
    own = Window.partitionBy(RUN, "process").orderBy("index")
    rows = history.where((fn.col("process") >= 0) & fn.col("f").isin("txn", "drain"))
    after = {name: fn.lead(name).over(own) for name in ("index", "type", "error", "value")}
    paired = rows.select("*", *(column.alias(f"{name}_after") for name, column in after.items()))
    ended = fn.col("type_after") != "invoke"
    return paired.where("type = 'invoke'").select(
        RUN,
        fn.col("index").alias("txn"),
        fn.when(ended, fn.col("index_after")).alias("end"),
        fn.coalesce(fn.when(ended, fn.col("type_after")), fn.lit("info")).alias("status"),
        is_fenced(fn.col("error_after")).alias("fenced"),
        "process",
        "f",
        "key",
        fn.coalesce(fn.when(ended, fn.col("value_after")), "value").alias("value"),
    )


def effects(operations: DataFrame, settings: JudgeSettings) -> DataFrame:
    """The effects of these transactions, with the columns of EFFECTS."""
    # A read of [1, 7] is of a list or of one version of a register; the history's writes distinguish them.
    registers = runs_with(operations.where(fn.col("value").rlike(r'\[\s*"w"\s*,')), settings)
    columns = operations.select(RUN, "txn", "end", "status", "fenced", "f", "key", "value")
    return columns.mapInArrow(partial(_read, registers=registers), from_arrow_schema(EFFECTS))


def _read(batches: Iterator[pa.RecordBatch], registers: frozenset[int]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows: list[tuple] = []
        for run, *own, f, key, encoded in zip(*map(pa.Array.to_pylist, batch.columns), strict=True):
            status = own[STATUS]
            value = json.loads(encoded or "null") or []
            effects_of = (
                of_drain(key, value, status) if f == "drain" else of_transaction(value, status, run in registers)
            )
            rows += ((run, *own, *effect) for effect in effects_of)
        columns = list(zip(*rows, strict=True)) or [()] * len(EFFECTS)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, EFFECTS, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=EFFECTS)


def of_drain(key: str, records: Sequence[Any], status: str) -> list[Effect]:
    """The effects of a drain, if it completed."""
    if status != "ok":
        return []
    complete: Effect = ("log", "drained", key, None, None, 0, True)
    return [complete, *(("log", "drained", key, text(value), offset, 0, True) for offset, value in records)]


def of_transaction(micro_ops: MicroOps, status: str, registers: bool) -> list[Effect]:
    """The effects of a transaction; if it did not end in ok, only its writes and the results of its polls."""
    micro_ops = [micro_op for micro_op in micro_ops if micro_op[0] != "abort"]
    found: list[Effect] = []
    last_writes = {micro_op[1]: place for place, micro_op in enumerate(micro_ops) if micro_op[0] in FORM_OF_WRITE}
    for place, micro_op in enumerate(micro_ops):
        if micro_op[0] in FORM_OF_WRITE:
            position, value = placed(micro_op[2]) if micro_op[0] != "append" else (None, micro_op[2])
            is_last = last_writes[micro_op[1]] == place
            found.append((FORM_OF_WRITE[micro_op[0]], "wrote", micro_op[1], text(value), position, place, is_last))
        elif micro_op[0] == "poll":
            found += _poll(micro_op, place, micro_ops[:place])
        elif micro_op[0] == "fence":
            found.append(("log", "fence", None, None, None, place, True))
        elif status == "ok":
            found += (_register_read if registers else _list_read)(micro_op, place, micro_ops[:place])
    return found


def placed(version: Any) -> tuple[int | None, Any]:
    """(position, value) of a version that may lack its position."""
    return (version[0], version[1]) if isinstance(version, list) else (None, version)


def text(value: Any) -> str:
    """A value as it is compared and shown."""
    return json.dumps(value, separators=(",", ":"))


def _poll(micro_op: MicroOp, place: int, earlier: MicroOps) -> Iterator[Effect]:
    """Each polled record: a log is read in pieces, so every record ends a read."""
    own = {(sent[1], text(placed(sent[2])[1])) for sent in earlier if sent[0] == "send"}
    for key, records in (micro_op[1] if len(micro_op) > 1 else {}).items():
        for offset, value in records:
            what = "own" if (key, text(value)) in own else "saw"
            yield "log", what, key, text(value), offset, place, True


def _list_read(micro_op: MicroOp, place: int, earlier: MicroOps) -> Iterator[Effect]:
    """Each element at its index; the part by other transactions ends before the transaction's own appends."""
    _, key, values = micro_op
    got = values or []
    own = [other[2] for other in earlier if other[:2] == ["append", key]]
    read_at = max((at for at, other in enumerate(earlier) if other[:2] == ["r", key]), default=None)
    known = got[: max(0, len(got) - len(own))] if read_at is None else earlier[read_at][2] or []
    expected = known + [other[2] for other in earlier[read_at:] if other[:2] == ["append", key]]
    if got != expected:
        yield "list", "against", key, f"read {text(got)}, expected {text(expected)}", None, place, False
        return
    by_others = len(got) - len(own)
    if by_others == 0:
        yield "list", "saw", key, None, NOWHERE, place, True
    for position, value in enumerate(got):
        yield "list", "saw", key, text(value), position, place, position == by_others - 1


def _register_read(micro_op: MicroOp, place: int, earlier: MicroOps) -> Iterator[Effect]:
    """The version read; one that the transaction wrote or read before yields no dependency."""
    _, key, version = micro_op
    position, value = seen(version)
    known = next((other for other in reversed(earlier) if other[1] == key), None)
    if known is None:
        yield "register", "saw", key, None if version is None else text(value), position, place, True
        return
    expected_position, expected = seen(known[2])
    has_moved = None not in (position, expected_position) and position != expected_position
    if value != expected or has_moved:
        found, wanted = (text(version), text(known[2])) if has_moved else (text(value), text(expected))
        yield "register", "against", key, f"read {found}, expected {wanted}", None, place, False


def seen(version: Any) -> tuple[int | None, Any]:
    """(position, value) of a version, null being the one before the first."""
    return (NOWHERE, None) if version is None else placed(version)
