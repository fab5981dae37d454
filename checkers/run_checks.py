"""Runs checks on a run directory and returns findings, quantities and a verdict.

    results = judge(run_directory, {"register": REGISTER_CHECK}, JudgeSettings(rules=KIP_996_RULES), spark_session())
    results.verdict                     # Verdict.VALID, INVALID or UNKNOWN

A check that crashes becomes an unknown finding that names it; the other checks still run. Only the first findings of
each name leave Spark, and one more finding counts the rest.

To add a check: write a module with `findings` and perhaps `quantities`, end it in a Check (checkers/framework/
contract.py), and register that with the entry point group `splitbrain.checks`. Contains no check.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as fn

from checkers.framework.contract import Check, JudgeSettings, Tables
from checkers.framework.progress import shown
from checkers.framework.tables import is_configured_for_small, open_tables
from harness.model import Finding, Quantity, Verdict
from harness.model.records.finding import rest_of, verdict_of
from harness.model.records.tables import FINDINGS

CHECKS_AT_ONCE = 3
FINDINGS_MAX = 100
"""How many findings of one name leave Spark."""


@dataclass(frozen=True, slots=True)
class CheckResults:
    """The results of the checks on a run, and how long they took."""

    findings: tuple[Finding, ...]
    quantities: tuple[Quantity, ...]
    verdict: Verdict
    seconds: float


def judge(
    run_directory: Path,
    checks: Mapping[str, Check],
    settings: JudgeSettings,
    spark: SparkSession,
    findings_max: int = FINDINGS_MAX,
) -> CheckResults:
    """Run these checks, given by name, on the run. Raises BadInput for a damaged table."""
    began = time.monotonic()
    tables = open_tables(spark, run_directory)

    def results_of(name: str) -> tuple[list[Finding], list[Quantity]]:
        return run_check(name, checks[name], tables, settings, findings_max)

    with shown(spark.sparkContext.statusTracker(), "judging"), ThreadPoolExecutor(checks_at_once(spark)) as pool:
        results = list(pool.map(results_of, checks))
    findings = with_times(list(chain.from_iterable(found for found, _ in results)), tables["history"])
    quantities = tuple(chain.from_iterable(measured for _, measured in results))
    return CheckResults(findings, quantities, verdict_of(findings), time.monotonic() - began)


def checks_at_once(spark: SparkSession) -> int:
    """Several checks if planning queries is most of the work; one if each check needs memory for its rows."""
    return CHECKS_AT_ONCE if is_configured_for_small(spark) else 1


def run_check(
    name: str, check: Check, tables: Tables, settings: JudgeSettings, findings_max: int
) -> tuple[list[Finding], list[Quantity]]:
    """One check's findings and quantities; a crash is a finding."""
    frames = [tables[table] for table in check.reads]
    try:
        found = collected(check.findings(*frames, settings), findings_max)
        if check.quantities is None:
            return found, []
        rows = check.quantities(*frames, settings).collect()
        return found, sorted((Quantity(**row.asDict()) for row in rows), key=lambda quantity: quantity.name)
    except Exception as crash:  # noqa: BLE001 - the other checks' results stand
        return [Finding(name, "check-crashed", "unknown", f"check {name} crashed: {error_line(crash)}")], []


def collected(findings: DataFrame, findings_max: int) -> list[Finding]:
    """The first findings of each name, and for a name with more one finding that counts them."""
    return listed(bounded(findings, findings_max).collect(), findings_max)


def bounded(findings: DataFrame, findings_max: int, *within: str) -> DataFrame:
    """The first findings of each name, within each value of these columns, with `rank` and, as `all`, their number.

    Rows without a name are not findings; all of them are kept.
    """
    by_name = Window.partitionBy(*within, "name")
    first = by_name.orderBy("time_ns", "witnesses", "key", "node", "message")
    return (
        findings.withColumn("rank", fn.row_number().over(first))
        .withColumn("all", fn.count("*").over(by_name))
        .where((fn.col("rank") <= findings_max) | fn.col("name").isNull())
    )


def listed(rows: Iterable[Row], findings_max: int) -> list[Finding]:
    """The findings of bounded's rows in order, and for a name with more one finding that counts them."""
    result = []
    for row in sorted(rows, key=lambda row: (row["name"], row["rank"])):
        fields = {name: row[name] for name in FINDINGS.names}
        result.append(Finding(**fields | {"witnesses": tuple(fields["witnesses"])}))
        if row["rank"] == findings_max < row["all"]:
            result.append(rest_of(result[-1], row["all"] - findings_max))
    return result


def with_times(findings: Sequence[Finding], history: DataFrame) -> tuple[Finding, ...]:
    """The findings; those without a time of their own have the time and the node of their last witness."""
    last = {max(each.witnesses) for each in findings if each.witnesses and each.time_ns is None}
    if not last:
        return tuple(findings)
    rows = history.where(fn.col("index").isin(list(last))).select("index", "time_ns", "node").collect()
    where = {row["index"]: {"time_ns": row["time_ns"], "node": row["node"]} for row in rows}
    return tuple(
        replace(each, **where[index])
        if each.time_ns is None and (index := max(each.witnesses, default=-1)) in where
        else each
        for each in findings
    )


def error_line(crash: Exception) -> str:
    """One line about a crash: the last of a worker's traceback if there is one, else the first of Spark's message."""
    if not isinstance(crash, PySparkException):
        return f"{type(crash).__name__}: {crash}"
    lines = [line.strip() for line in str(crash).splitlines() if line.strip()] or ["no message"]
    traceback = "Traceback (most recent call last):"
    if traceback not in lines:
        return lines[0]
    # Java's own trace follows the worker's.
    frames = takewhile(lambda line: not line.startswith("at "), lines[lines.index(traceback) :])
    return list(frames)[-1]
