"""The check of a run's registers: linearizability, key by key, of reads, writes and compare-and-sets.

Operations that ended in `info` may take effect at any time or never; failed ones did not. The settings define what a
nil read and a failed compare-and-set mean. checkers/linearizability/models/register.py checks a key.

Findings: those of checkers/linearizability/by_key.py; and `no-progress` (unknown), no read ever returned.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.framework.by_run import missing
from checkers.framework.contract import Check, JudgeSettings, finding
from checkers.linearizability import by_key as linearizability
from checkers.linearizability.models.register import REGISTER

CHECK = "register"


def findings(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:  # noqa: ARG001
    """Every key without a valid order, and whether anything was read."""
    broken = linearizability.findings(history, REGISTER, CHECK, settings)
    return broken.unionAll(no_progress(history, CHECK, settings))


def no_progress(history: DataFrame, check: str, settings: JudgeSettings) -> DataFrame:
    """One unknown if a workload that should read never did: such a run proves nothing."""
    reads = history.where((fn.col("process") >= 0) & (fn.col("f") == "read") & (fn.col("type") == "ok"))
    none = missing(reads, settings).where(fn.lit(not settings.idle))
    return finding(none, check, "no-progress", fn.lit("no read ever returned"), severity="unknown")


REGISTER_CHECK = Check(findings, judges="operation", handles_many_runs=True)
