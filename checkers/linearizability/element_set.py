"""The check of a run's set: what became of each element (Jepsen's set-full).

Elements that were acknowledged, or that a read showed, stay. The model (checkers/linearizability/models/set_full.py)
defines the findings. The parts of the set are the keys s0, s1, …; other keys are not judged.

Further findings: `no-progress` (unknown), no read ever returned.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.framework.contract import Check, JudgeSettings
from checkers.linearizability import by_key
from checkers.linearizability.models.set_full import SET_FULL
from checkers.linearizability.register import no_progress

CHECK = "set"


def findings(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:  # noqa: ARG001
    """The elements that are lost, shown twice or never added, and whether anything was read."""
    parts = history.where(fn.col("key").rlike(r"^s\d+$"))
    broken = by_key.findings(parts, SET_FULL, CHECK, settings)
    return broken.unionAll(no_progress(history, CHECK, settings))


SET_CHECK = Check(findings, judges="operation")
