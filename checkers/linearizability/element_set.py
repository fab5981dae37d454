"""The check of a run's set: what became of each element (Jepsen's set-full).

Elements that were acknowledged, or that a read showed, stay. The model (checkers/linearizability/models/set_full.py)
defines the findings. The parts of the set are the keys s0, s1, …; other keys are not judged.

Further findings: `no-progress` (unknown), no read ever returned; `no-final-read` (unknown), known elements are missing
from a part's last read, which began before the end of the faults. Where any node answers from its own state, such a
read may be stale, so the check `promised-set` knows of a lost element by a final read only.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.framework.contract import Check, JudgeSettings
from checkers.linearizability import by_key
from checkers.linearizability.models.set_full import SET_FULL
from checkers.linearizability.promised_reads import final_mark
from checkers.linearizability.register import no_progress

CHECK, PROMISED = "set", "promised-set"
LOST, UNREAD = "lost-element", "no-final-read"


def findings(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:  # noqa: ARG001
    """The elements that are lost, shown twice or never added, and whether anything was read."""
    return _broken(history, CHECK, settings).unionAll(no_progress(history, CHECK, settings))


def findings_by_final_reads(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:  # noqa: ARG001
    """The same, where only reads after the final mark show that an element is lost."""
    broken = _broken(history, PROMISED, settings)
    is_early = (fn.col("name") == LOST) & ~fn.coalesce(fn.array_max("witnesses") > fn.col("final_index"), fn.lit(False))
    message = fn.concat(fn.lit("cannot check without a read after the last heal: "), fn.col("message"))
    judged = broken.join(fn.broadcast(final_mark(history)), on=RUN, how="left").select(
        *(column for column in broken.columns if column not in ("name", "severity", "message")),
        fn.when(is_early, UNREAD).otherwise(fn.col("name")).alias("name"),
        fn.when(is_early, "unknown").otherwise(fn.col("severity")).alias("severity"),
        fn.when(is_early, message).otherwise(fn.col("message")).alias("message"),
    )
    return judged.select(*broken.columns).unionAll(no_progress(history, PROMISED, settings))


def _broken(history: DataFrame, check: str, settings: JudgeSettings) -> DataFrame:
    parts = history.where(fn.col("key").rlike(r"^s\d+$"))
    return by_key.findings(parts, SET_FULL, check, settings)


SET_CHECK = Check(findings, judges="operation", handles_many_runs=True)
PROMISED_SET = Check(findings_by_final_reads, judges="operation", handles_many_runs=True)
