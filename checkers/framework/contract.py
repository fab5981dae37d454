"""The interface of a check: its settings, its two functions, and the shape of what they return.

A check reads tables of a run, history and observations unless it names others, and returns findings. A second function
returns quantities, where the check has any. Both end in a `select` of the contract's columns, which `finding` and
`quantity` below produce.

    def findings(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:
        lost = history.where(...)
        return finding(lost, "my-check", "lost-write", fn.lit("an acknowledged write was lost"), key=fn.col("key"))

The tables have the columns of harness.model.records.tables, a `position` that orders rows with equal time stamps as
they were recorded, and `run`. A check that `handles_many_runs` gets the rows of many runs at once, told apart by `run`,
the run's number, and returns findings and quantities with it (checkers/framework/by_run.py). Any other check gets one
run after the other. Contains the contract and no check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from harness.model.measures import Measure
from harness.model.nemesis_ops import NemesisOps
from harness.model.quorum_states import KIP_996_RULES
from harness.model.records.finding import Severity
from harness.model.records.tables import FINDINGS, QUANTITIES
from harness.model.transition_rules import TransitionRules

FINDING_SCHEMA = from_arrow_schema(FINDINGS)
FINDINGS_OF_RUNS = pa.schema([("run", pa.int32()), *FINDINGS])
QUANTITIES_OF_RUNS = pa.schema([("run", pa.int32()), *QUANTITIES])

Semantics = Literal["strict", "knossos"]
TableName = Literal["history", "observations", "batches", "records", "rpcs"]
Tables = Mapping[TableName, DataFrame]


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """What the checks assume about the run.

    rules: the transitions that nodes may make. node_rules: those of single nodes, where they differ. semantics: strict
    reads a nil as the initial value and a failed compare-and-set as an observation; knossos ignores a nil read and a
    failed compare-and-set. idle: the workload was meant to do nothing. search_steps: how many steps the search may take
    on one key before the result is unknown. initial: the JSON of a model's initial value, None for nil. ops: what the
    nemesis's operations do. measures: what a scenario measures itself. runs: the numbers of the runs that are judged
    together, in order. history_files: the Parquet files of a large history, for checks that let workers read them.
    """

    rules: TransitionRules = KIP_996_RULES
    node_rules: Mapping[int, TransitionRules] = field(default_factory=dict)
    semantics: Semantics = "strict"
    idle: bool = False
    search_steps: int = 20_000_000
    initial: str | None = None
    ops: NemesisOps = field(default_factory=NemesisOps)
    measures: tuple[Measure, ...] = ()
    runs: tuple[int, ...] = (0,)
    history_files: tuple[Path, ...] = ()


Judged = Literal["operation", "fault action", "observation", "record batch"]
"""What a check judges one by one, as the verdict counts it: clients' operations, the nemesis's, or rows of a table."""

CheckFunction = Callable[..., DataFrame]
"""The tables that the check reads, in order, and the settings → rows of the contract."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its findings, its quantities if it has any, the tables that both functions take, in order, what it
    judges, if the verdict should count that, and whether it judges the runs of a store all at once.

    reads_rules: it reads `rules` or `node_rules` of the settings. A check that handles many runs and does not read them
    gets runs of any rules together, and must not rely on the settings'.
    """

    findings: CheckFunction
    quantities: CheckFunction | None = None
    reads: tuple[TableName, ...] = ("history", "observations")
    judges: Judged | None = None
    handles_many_runs: bool = False
    reads_rules: bool = False


def finding(
    frame: DataFrame,
    check: str,
    name: str | Column,
    message: Column,
    severity: Severity | Column = "invalid",
    key: Column | None = None,
    node: Column | None = None,
    time_ns: Column | None = None,
    witnesses: Column | None = None,
    evidence: Column | None = None,
) -> DataFrame:
    """One finding for each row of frame; columns not given are null, witnesses an empty list."""
    nothing = fn.lit(None)
    return frame.select(
        run_of(frame),
        fn.lit(check).alias("check"),
        (fn.lit(name) if isinstance(name, str) else name).alias("name"),
        (fn.lit(severity) if isinstance(severity, str) else severity).alias("severity"),
        message.alias("message"),
        (nothing if key is None else key).cast("string").alias("key"),
        (nothing if node is None else node).cast("int").alias("node"),
        (nothing if time_ns is None else time_ns).cast("bigint").alias("time_ns"),
        (fn.array() if witnesses is None else witnesses).cast("array<bigint>").alias("witnesses"),
        fn.lit(1).cast("bigint").alias("count"),
        (nothing if evidence is None else evidence).cast("string").alias("evidence"),
    )


def run_of(frame: DataFrame) -> Column:
    """The number of a row's run; 0 where frame does not tell runs apart."""
    return fn.col("run") if "run" in frame.columns else fn.lit(0).alias("run")


def no_findings(history: DataFrame, *_rest: object) -> DataFrame:
    """The findings of a check that has quantities alone."""
    return finding(history.limit(0), "", "", fn.lit(""))


def quantity(frame: DataFrame, check: str, name: str | Column, value: Column, unit: str | Column) -> DataFrame:
    """One quantity for each row of frame; rows without a value are left out."""
    return frame.select(
        run_of(frame),
        fn.lit(check).alias("check"),
        (fn.lit(name) if isinstance(name, str) else name).alias("name"),
        value.cast("double").alias("value"),
        (fn.lit(unit) if isinstance(unit, str) else unit).alias("unit"),
    ).where(fn.col("value").isNotNull())


def quantities_of(frame: DataFrame, check: str, units: dict[str, str]) -> DataFrame:
    """The quantities of a row of many numbers; units maps each column to its unit."""
    numbers = [
        fn.struct(fn.lit(name).alias("name"), fn.col(name).cast("double").alias("value"), fn.lit(unit).alias("unit"))
        for name, unit in units.items()
    ]
    rows = frame.select(run_of(frame), fn.explode(fn.array(*numbers)).alias("row"))
    return quantity(rows, check, fn.col("row.name"), fn.col("row.value"), fn.col("row.unit"))
