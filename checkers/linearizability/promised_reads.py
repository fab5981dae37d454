"""The guarantees of a register that any Kafka controller may answer for from its own metadata image.

Kafka does not rule out stale reads, so they are quantities. These are its guarantees (kernels/promises.py defines their
violations):

    phantom-read        a read returns only written values
    nonmonotonic-read   on one node reads never go back, restarts included, unless the node loses its disk
    lost-write          a final read (called after the mark "final") returns the last acknowledged write, or one that
                        is newer or concurrent with it

Further findings: `values-not-unique` (unknown), a key's history cannot be checked; `no-final-read` (unknown), the run
set a final mark and no read returned after it.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.framework.by_run import RUN
from checkers.framework.contract import (
    FINDINGS_OF_RUNS,
    QUANTITIES_OF_RUNS,
    Check,
    JudgeSettings,
    finding,
    quantity,
)
from checkers.framework.keyed import Keys, by_key, origin
from checkers.framework.timeline import is_mark, with_disks
from checkers.kernels.promises import BACKWARDS, LOST, NOT_UNIQUE, PHANTOM, judge_promises
from checkers.kernels.rows import NOBODY, Rows
from harness.model.story import FINAL_READS

CHECK = "promised-reads"
WIPES_MAX = 1024
ALSO = ("time_ns", "node", "final")

BREACHES = {
    PHANTOM: (
        "phantom-read", "invalid",
        "reads return only written values: {0} returned a value whose write had not begun",
    ),
    BACKWARDS: (
        "nonmonotonic-read", "invalid",
        "reads on one node never go back: {2} came after {0} on the same node, and is certainly older than {1}",
    ),
    LOST: ("lost-write", "invalid", "acknowledged writes survive: {0} was acknowledged, yet the final {1} is older"),
    NOT_UNIQUE: (
        "values-not-unique", "unknown", "cannot check reads unless written values are unique: {0} repeats one",
    ),
}  # fmt: skip
"""By violation: the finding's name, its severity, and its message about the witnesses."""


def findings(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:  # noqa: ARG001
    """Violated guarantees, and what could not be checked."""
    judge = partial(breaches, settings=settings)
    broken = by_key(prepared(history, settings), settings, judge, from_arrow_schema(FINDINGS_OF_RUNS), also=ALSO)
    return broken.unionAll(no_final_read(history))


def quantities(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:  # noqa: ARG001
    """How many reads were stale, and the maximum staleness."""
    judge = partial(staleness, settings=settings)
    counted = by_key(prepared(history, settings), settings, judge, from_arrow_schema(QUANTITIES_OF_RUNS), also=ALSO)
    reads, worst = fn.col("name") == "stale_reads", fn.col("name") == "stale_read_ms_max"
    total = counted.groupBy(RUN, "name", "unit").agg(fn.sum("value").alias("sum"), fn.max("value").alias("max"))
    return quantity(
        total, CHECK, fn.col("name"), fn.when(reads, fn.col("sum")).when(worst, fn.col("max")), fn.col("unit")
    )


def prepared(history: DataFrame, settings: JudgeSettings) -> DataFrame:
    """The history with `final` on rows after the final mark; a node that lost its disk counts as another node."""
    return (
        with_disks(history, history, settings.ops.empties_disk, "index")
        .withColumn("node", fn.col("node") * WIPES_MAX + fn.col("disk"))
        .join(fn.broadcast(final_mark(history)), on=RUN, how="left")
        .withColumn("final", fn.coalesce(fn.col("index") > fn.col("final_index"), fn.lit(False)))
    )


def final_mark(history: DataFrame) -> DataFrame:
    """(run, final_index): the index of the final mark; no row for a run without one."""
    return history.where(is_mark(FINAL_READS)).groupBy(RUN).agg(fn.min("index").alias("final_index"))


def no_final_read(history: DataFrame) -> DataFrame:
    """One unknown if there was a final mark and no read returned after it."""
    reads = history.where((fn.col("process") >= 0) & (fn.col("f") == "read") & (fn.col("type") == "ok"))
    last = reads.groupBy(RUN).agg(fn.max("index").alias("last"))
    last_read = fn.coalesce("last", fn.lit(NOBODY))
    none = final_mark(history).join(last, on=RUN, how="left").where(last_read < fn.col("final_index"))
    message = fn.lit("cannot check whether acknowledged writes survive: no read returned after the final mark")
    return finding(none, CHECK, "no-final-read", message, severity="unknown")


def judged(keys: Keys) -> tuple[Rows, Rows]:
    """Witnesses by key and breach, and stale reads by key."""
    return judge_promises(
        keys.starts, keys.kind, keys.f, keys.value, keys.partner, keys.node, keys.time_ns, keys.final,
        len(keys.texts) + 1, int(keys.node.max(initial=0)) + 1,
    )  # fmt: skip


def breaches(keys: Keys, settings: JudgeSettings) -> pa.RecordBatch:
    """The findings of a batch of whole keys."""
    witnesses, _ = judged(keys)
    found = []
    for which, breach in np.argwhere(witnesses[:, :, 0] != NOBODY).tolist():
        name, severity, message = BREACHES[breach]
        rows, (run, key) = witnesses[which, breach], origin(keys.names[which], settings)
        text = message.format(*(keys.describe(row) for row in rows if row != NOBODY))
        found.append(
            {
                "run": run, "check": CHECK, "name": name, "severity": severity,
                "message": f"key {key}: {text}" if key else text,
                "key": key or None, "witnesses": keys.history_indexes(rows), "count": 1,
            }
        )  # fmt: skip
    return pa.RecordBatch.from_pylist(found, FINDINGS_OF_RUNS)


def staleness(keys: Keys, settings: JudgeSettings) -> pa.RecordBatch:
    """A batch's quantities by run: stale reads, and the maximum staleness in ms."""
    _, stale = judged(keys)
    of_runs: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for name, (reads, worst_ns) in zip(keys.names, stale.tolist(), strict=True):
        run, _ = origin(name, settings)
        of_runs[run] = [of_runs[run][0] + reads, max(of_runs[run][1], worst_ns)]
    rows = []
    for run, (reads, worst_ns) in of_runs.items():
        own = {"run": run, "check": CHECK}
        rows.append(own | {"name": "stale_reads", "value": float(reads), "unit": "reads"})
        rows.append(own | {"name": "stale_read_ms_max", "value": worst_ns / 1e6, "unit": "ms"})
    return pa.RecordBatch.from_pylist(rows, QUANTITIES_OF_RUNS)


PROMISED_READS = Check(findings, quantities, judges="operation", handles_many_runs=True)
