"""Linearizability of a run's registers, key by key: reads, writes and compare-and-sets.

Operations that ended in `info` may take effect at any time or never; those that failed did not; what a nil read and a
failed compare-and-set say is the settings' choice. How a key is judged: checkers/models/register.py.

Findings: those of checkers/linearizability.py; and `no-progress` (unknown), where no read ever returned.

What may live here: this check. What may not: models and kernels.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.framework.contract import Check, JudgeSettings, finding
from checkers.linearizability import by_key as linearizability
from checkers.linearizability.models.register import REGISTER

CHECK = "register"


def findings(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:  # noqa: ARG001
    """Every key whose operations have no order, and whether anything was read at all."""
    broken = linearizability.findings(history, REGISTER, CHECK, settings)
    return broken.unionAll(no_progress(history, settings))


def no_progress(history: DataFrame, settings: JudgeSettings) -> DataFrame:
    """One unknown if a workload that was to read never did: such a run proves nothing."""
    reads = history.where((fn.col("process") >= 0) & (fn.col("f") == "read") & (fn.col("type") == "ok"))
    # One is enough to know, and spares a large history a second reading.
    none = reads.limit(1).agg(fn.count("*").alias("reads")).where((fn.col("reads") == 0) & fn.lit(not settings.idle))
    return finding(none, CHECK, "no-progress", fn.lit("no read of a register ever returned"), severity="unknown")


REGISTER_CHECK = Check(findings)
