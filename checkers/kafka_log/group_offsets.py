"""A consumer group's committed offsets, partition by partition: they never go back.

    commit      ok {"log-0": 41, …}        a member committed its position: 41 is the next record to read
    committed   ok {"log-0": 41, …}        the answer of the group's coordinator; null without a committed offset
    committed   key log-0, ok {"log-0": 41}    the same, requested after all faults were healed

    committed-offset-regression        no commit, and no `committed` with a key, has a lower offset than one that an
                                       operation which returned before its call had committed or seen
    stale-committed-offset             (tolerated) the same for a `committed` without a key

The specification fixes the order, so one pass checks it (checkers/kernels/ranks.py). It relies on how members commit.
Of a partition one member at a time may commit, by the group's generation; a commit of an earlier generation is refused
(ILLEGAL_GENERATION). The member that gets the partition begins at the committed offset, which the coordinator knew when
it started the generation, and commits what it has polled since, in order: so each commit is ahead of all that returned
before. A member that restarts at the earliest record, because the committed offset was lost or lies beyond the log's
end, commits less than was committed before, and that is a regression. Histories whose members seek do not satisfy this
rule.

An offset that is not known to be committed proves nothing: a commit with an unknown outcome may take effect at any time
in its generation, or never, and in either case no later one may be lower than a known one. An offset that was read is
committed, since a coordinator answers from what its replicas have. A coordinator that is cut off from the others does
not yet know that it was replaced, and answers its last state: such an answer loses nothing, and is tolerated during
faults.

Contains these two findings. The records of the log are checked in client_log.py.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.kernels.ranks import overtaken
from checkers.kernels.rows import Rows
from harness.model.records.tables import FINDINGS

REGRESSION, STALE = "committed-offset-regression", "stale-committed-offset"

COMMITTED_BY, SEEN, SEEN_AT_LAST = range(3)
"""Kinds of operations: a commit, a `committed` without a key, and one with a key."""

LABELS = ("commit", "committed", "final committed")
NOTHING = -1
"""The offset if none was committed."""


def rows(history: DataFrame) -> DataFrame:
    """The rows of commits and committed."""
    return history.where((fn.col("process") >= 0) & fn.col("f").isin("commit", "committed"))


def offsets(history: DataFrame) -> DataFrame:
    """(run, key, call, index, what, offset): the offset of each partition in each successful commit and committed."""
    own = Window.partitionBy(RUN, "process").orderBy("index")
    begun = rows(history).withColumn("call", fn.coalesce(fn.lag("index").over(own), "index"))
    each = begun.where("type = 'ok'").select(
        RUN, "call", "index", what().alias("what"), fn.explode(offset_map()).alias("partition", "offset")
    )
    offset = fn.coalesce("offset", fn.lit(NOTHING)).alias("offset")
    return each.select(RUN, fn.col("partition").alias("key"), "call", "index", "what", offset)


def what() -> Column:
    """The kind of an operation."""
    seen = fn.when(fn.col("key").isNull(), SEEN).otherwise(SEEN_AT_LAST)
    return fn.when(fn.col("f") == "commit", COMMITTED_BY).otherwise(seen)


def offset_map() -> Column:
    """An operation's value: partition → offset."""
    return fn.from_json("value", "map<string, bigint>", {"mode": "FAILFAST"})


def judge(key: str, rows: pa.Table, check: str) -> pa.RecordBatch:
    """The findings about one partition, under the name of this check."""
    call, index, what, offset = (rows.column(name).to_numpy() for name in ("call", "index", "what", "offset"))
    found = []
    for before, after in regressions(call, index, offset):
        is_stale = what[after] == SEEN
        ends = [
            f"{LABELS[what[at]]} of {shown(offset[at])} (index {call[at]} to {index[at]})" for at in (before, after)
        ]
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


def shown(offset: int) -> str:
    """An offset as text."""
    return "no offset" if offset == NOTHING else str(offset)


def regressions(call: Rows, index: Rows, offset: Rows) -> Rows:
    """Pairs of operations: the one with the highest offset that returned before the other began, which is lower."""
    ends = np.concatenate((call, index))
    order = np.argsort(ends, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    operation, is_end = order % len(call) if len(call) else order, order >= len(call)
    # An operation without an offset is lower than all others, but still has a position.
    known = np.where(is_end, offset[operation] + 1, NOTHING)
    return operation[overtaken(is_end, known, operation, place[: len(call)], place[len(call) :])]
