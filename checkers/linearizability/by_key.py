"""Linearizability of any model, key by key, on Spark: shared by the register check and imported histories.

Each batch of whole keys yields one row for every algorithm that checked some of it, with the amount, and one row for
every finding about a key. Keys of different runs are different keys, and the rows name the run.

Findings: `non-linearizable` (invalid), with the operations that cannot be ordered; `undecided` (unknown), with the
steps spent. Contains the way from outcomes to rows.
"""

from __future__ import annotations

import time
from collections import defaultdict

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.framework.by_run import RUN
from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys, by_key, origin
from checkers.linearizability.models.model import Model, Outcome, Problem
from harness.model.records.evidence import encoded
from harness.model.records.tables import FINDINGS

TALLY = pa.schema(
    [
        ("run", pa.int32()),
        ("algorithm", pa.string()),
        ("keys", pa.int64()),
        ("operations", pa.int64()),
        ("seconds", pa.float64()),
    ]
)
"""How much of a run an algorithm checked; null in rows that are findings."""

OUTCOMES = pa.schema([*TALLY, *FINDINGS])
OUTCOME_SCHEMA = from_arrow_schema(OUTCOMES)


def findings(history: DataFrame, model: Model, check: str, settings: JudgeSettings) -> DataFrame:
    """The findings alone."""
    rows = outcomes(history, model, check, settings)
    return rows.where(rows["name"].isNotNull()).select(RUN, *FINDINGS.names)


def outcomes(history: DataFrame, model: Model, check: str, settings: JudgeSettings) -> DataFrame:
    """Rows of OUTCOMES for the history's keys."""

    def judged(keys: Keys) -> pa.RecordBatch:
        began = time.perf_counter()
        found = model.judge(keys, settings)
        seconds = time.perf_counter() - began
        return pa.RecordBatch.from_pylist(rows_of(keys, found, check, seconds, settings), OUTCOMES)

    return by_key(history, settings, judged, OUTCOME_SCHEMA, model.fs)


def rows_of(keys: Keys, found: list[Outcome], check: str, seconds: float, settings: JudgeSettings) -> list[dict]:
    """A batch's tallies and findings; the time is divided by operations."""
    tallies: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    rows = []
    for name, outcome in zip(keys.names, found, strict=True):
        run, key = origin(name, settings)
        tally = tallies[run, outcome.algorithm]
        tally[0] += 1
        tally[1] += outcome.operations
        problems = () if outcome.problem is None else (outcome.problem, *outcome.others)
        rows += [{"run": run, **finding_row(keys, problem, key, check)} for problem in problems]
    total = sum(operations for _, operations in tallies.values()) or 1
    for (run, algorithm), (count, operations) in tallies.items():
        share = seconds * operations / total
        rows.append({"run": run, "algorithm": algorithm, "keys": count, "operations": operations, "seconds": share})
    return rows


def finding_row(keys: Keys, problem: Problem, key: str, check: str) -> dict:
    """A finding on one key as a row of the contract."""
    return {
        "check": check,
        "name": problem.name,
        "severity": problem.severity,
        "message": f"key {key}: {problem.message}" if key else problem.message,
        "key": key or None,
        "witnesses": keys.history_indexes(problem.rows),
        "count": 1,
        "evidence": None if problem.evidence is None else encoded(problem.evidence),
    }
