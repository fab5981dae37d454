"""Linearizability of registers, key by key: reads, writes and compare-and-sets.

Where the values written to a key are unique, the verdict takes linear time (kernels/zones.py); otherwise a search with
a budget (kernels/search.py), which says unknown when it is spent. Operations that ended in `info` may take effect at
any time or never; those that failed did not; what a nil read and a failed compare-and-set say is the settings' choice.

Findings: `non-linearizable` (invalid), with the operations that cannot be ordered; `undecided` (unknown), with the
steps spent; `no-progress` (unknown), where no read ever returned.

What may live here: this check. What may not: kernels.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.contract import FINDING_SCHEMA, JudgeSettings, finding
from checkers.kernels import search, zones
from checkers.kernels.rows import NIL, NOBODY, Rows
from checkers.keyed import Keys, by_key
from checkers.swaps import operations
from harness.model.finding import Severity
from harness.model.tables import FINDINGS

CHECK = "register"


def findings(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:  # noqa: ARG001
    """Every key whose operations have no order, and whether anything was read at all."""
    steps_max = settings.search_steps
    broken = by_key(history, settings, lambda keys: judge(keys, steps_max), FINDING_SCHEMA)
    return broken.unionAll(no_progress(history, settings))


def no_progress(history: DataFrame, settings: JudgeSettings) -> DataFrame:
    """One unknown if a workload that was to read never did: such a run proves nothing."""
    reads = history.where((fn.col("process") >= 0) & (fn.col("f") == "read") & (fn.col("type") == "ok"))
    none = reads.agg(fn.count("*").alias("reads")).where((fn.col("reads") == 0) & fn.lit(not settings.idle))
    return finding(none, CHECK, "no-progress", fn.lit("no read of a register ever returned"), severity="unknown")


def judge(keys: Keys, steps_max: int) -> pa.RecordBatch:
    """The findings of a batch of whole keys."""
    values = len(keys.texts) + 1
    verdicts, witnesses = zones.judge_registers(keys.starts, keys.kind, keys.f, keys.value, keys.partner, values)
    found = []
    for which in np.flatnonzero(verdicts != zones.VALID).tolist():
        if verdicts[which] == zones.NOT_UNIQUE:
            found += searched(keys, which, steps_max)
        else:
            message = explain(keys, verdicts[which], witnesses[which])
            found.append(row(keys, which, "non-linearizable", "invalid", message, witnesses[which]))
    return pa.RecordBatch.from_pylist(found, FINDINGS)


def explain(keys: Keys, verdict: int, witness: Rows) -> str:
    """Why no order exists, in terms of the operations that bound it."""
    told = [keys.describe(at) for at in witness if at != NOBODY and at >= 0]
    if verdict == zones.NEVER_WRITTEN:
        return f"reads return written values: {told[0]} returned what was never written, or only by a write that failed"
    if verdict == zones.FUTURE_READ:
        return f"reads return written values: {told[0]} ended before {told[1]} began"
    if len(told) < 4:
        return f"reads see the latest write: {told[1]} ended before {told[0]} began, which still saw the initial value"
    return (
        "reads see the latest write: no order exists, for "
        f"{told[0]} ended before {told[3]} began, and {told[2]} ended before {told[1]} began"
    )


def searched(keys: Keys, which: int, steps_max: int) -> list[dict]:
    """The search's finding on one key, if any."""
    call, back, code, a, b = operations(keys, which)
    verdict, steps, stuck = search.search(call, back, code, a, b, NIL, steps_max)
    if verdict == search.VALID:
        return []
    ends = np.array([call[stuck], back[stuck]])
    told = keys.describe(call[stuck])
    if verdict == search.INVALID:
        message = f"reads see the latest write: no order of the operations explains {told}, or what came before it"
        return [row(keys, which, "non-linearizable", "invalid", message, ends)]
    message = f"linearizability is not decided: {steps - 1} steps were spent, and none got past {told}"
    return [row(keys, which, "undecided", "unknown", message, ends)]


def row(keys: Keys, which: int, name: str, severity: Severity, message: str, witnesses: Rows) -> dict:
    """A finding on one key as a row of the contract."""
    key = keys.names[which]
    return {
        "check": CHECK,
        "name": name,
        "severity": severity,
        "message": f"key {key}: {message}" if key else message,
        "key": key or None,
        "witnesses": keys.history_indexes(witnesses),
        "count": 1,
    }
