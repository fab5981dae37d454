"""A consumer group's committed offsets, partition by partition: they never go back.

    commit      ok {"log-0": 41, …}        a member said up to where it had read: 41 is the next record to read
    committed   ok {"log-0": 41, …}        what the group's coordinator answers; null where nothing was committed
    committed   key log-0, ok {"log-0": 41}    the same, asked once everything is healed

    committed-offset-regression        no commit, and no `committed` with a key, has a lower offset than what another
                                       operation that returned before it began had committed or seen
    stale-committed-offset             (tolerated) the same of a `committed` without a key

That is an order which the specification fixes, so one pass decides it (checkers/kernels/ranks.py), and it rests on what
members commit. Of a partition one member at a time may commit, by the group's generation; a commit of an earlier one is
refused (ILLEGAL_GENERATION). Whoever gets the partition begins at the committed offset, which the coordinator knew when
it let the new generation begin, and commits what it has itself polled since, in order: so each commit is ahead of all
that returned before. A member that starts anew at the earliest record, as the committed offset was lost or lies beyond
the log's end, commits less than was committed before, which is the group going back; but so does a history whose
members seek, and that is not one for this rule.

What is not known to have been committed says nothing: a commit of unknown end may take effect at any time while its
generation lasts, or never, and either way no later one may be lower than one that is known. What is read is committed,
for a coordinator tells what its replicas have. But one that is cut off from the others does not know yet that it is
none any more, and answers what it last knew: such an answer loses nothing, and is tolerated while faults last.

What may live here: these two findings. What may not: the records of the log.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.kernels.ranks import overtaken
from checkers.kernels.rows import Rows
from harness.model.records.tables import FINDINGS

REGRESSION, STALE = "committed-offset-regression", "stale-committed-offset"

COMMITTED_BY, SEEN, SEEN_AT_LAST = range(3)
"""What an operation is: a commit, a `committed`, or one with a key."""

WORDS = ("commit", "committed", "final committed")
NOTHING = -1
"""The offset where nothing was committed."""


def rows(history: DataFrame) -> DataFrame:
    """The rows of commits and committed."""
    return history.where((fn.col("process") >= 0) & fn.col("f").isin("commit", "committed"))


def offsets(history: DataFrame) -> DataFrame:
    """(key, call, index, what, offset): what each commit and committed that ended in ok says of each partition."""
    own = Window.partitionBy("process").orderBy("index")
    begun = rows(history).withColumn("call", fn.coalesce(fn.lag("index").over(own), "index"))
    each = begun.where("type = 'ok'").select(
        "call", "index", what().alias("what"), fn.explode(told()).alias("partition", "offset")
    )
    offset = fn.coalesce("offset", fn.lit(NOTHING)).alias("offset")
    return each.select(fn.col("partition").alias("key"), "call", "index", "what", offset)


def what() -> Column:
    """Which kind of operation it is."""
    seen = fn.when(fn.col("key").isNull(), SEEN).otherwise(SEEN_AT_LAST)
    return fn.when(fn.col("f") == "commit", COMMITTED_BY).otherwise(seen)


def told() -> Column:
    """An operation's value: partition → offset."""
    return fn.from_json("value", "map<string, bigint>", {"mode": "FAILFAST"})


def judge(key: str, rows: pa.Table, check: str) -> pa.RecordBatch:
    """The findings of one partition, for the check that they are told by."""
    call, index, what, offset = (rows.column(name).to_numpy() for name in ("call", "index", "what", "offset"))
    found = []
    for before, after in regressions(call, index, offset):
        is_stale = what[after] == SEEN
        ends = [f"{WORDS[what[at]]} of {said(offset[at])} (index {call[at]} to {index[at]})" for at in (before, after)]
        found.append(
            {
                "check": check,
                "name": STALE if is_stale else REGRESSION,
                "severity": "tolerated" if is_stale else "invalid",
                "message": f"key {key}: a group's committed offset never goes back: {ends[0]}, then {ends[1]}",
                "key": key,
                "witnesses": sorted(int(at[row]) for row in (before, after) for at in (call, index)),
                "count": 1,
            }
        )
    return pa.RecordBatch.from_pylist(found, FINDINGS)


def said(offset: int) -> str:
    """An offset in words."""
    return "no offset" if offset == NOTHING else str(offset)


def regressions(call: Rows, index: Rows, offset: Rows) -> Rows:
    """Pairs of operations: the one with the highest offset that returned before the other began, which is lower."""
    ends = np.concatenate((call, index))
    order = np.argsort(ends, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    operation, is_end = order % len(call) if len(call) else order, order >= len(call)
    # An operation without an offset is lower than any, and none that is without a place.
    told = np.where(is_end, offset[operation] + 1, NOTHING)
    return operation[overtaken(is_end, told, operation, place[: len(call)], place[len(call) :])]
