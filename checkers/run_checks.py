"""Runs checks on run directories and returns findings, quantities and a verdict on each.

    results = judge(run_directory, {"register": REGISTER_CHECK}, JudgeSettings(rules=KIP_996_RULES), spark_session())
    results.verdict                     # Verdict.VALID, INVALID or UNKNOWN

A run is judged as many are, all at once (judge_runs): building a check's queries takes seconds, and reading the rows of
a small run takes a moment.

A check that crashes becomes an unknown finding that names it; the other checks still run. Only the first findings of
each name leave Spark, and one more finding counts the rest.

To add a check: write a module with `findings` and perhaps `quantities`, end it in a Check (checkers/framework/
contract.py), and register that with the entry point group `splitbrain.checks`. Contains no check.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN, of_run
from checkers.framework.contract import Check, JudgeSettings, Tables
from checkers.framework.progress import shown
from checkers.framework.tables import Chunks, chunks_of, is_for_large_run, open_chunks
from checkers.runs.measures import CHECK as MEASURES_OF_SIDE
from checkers.runs.measures import MEASURES
from harness.model import BadInput, Finding, Quantity, Verdict
from harness.model.records.finding import rest_of, verdict_of
from harness.model.records.tables import FINDINGS, QUANTITIES

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


@dataclass(frozen=True, slots=True)
class OfCheck:
    """A check's results on a run."""

    findings: Sequence[Finding]
    quantities: Sequence[Quantity] = ()


Results = dict[int, OfCheck]
"""A check's results by run."""


@dataclass(frozen=True, slots=True)
class RunInput:
    """A run's tables, its checks by name, and what these assume. The settings of runs that are judged together differ
    in their rules, node_rules, idle and measures alone."""

    chunks: Chunks
    checks: Mapping[str, Check]
    settings: JudgeSettings


Task = tuple[str, Check, JudgeSettings]
"""A check by name, with the settings that have the numbers of the runs that it judges."""


def judge(
    run_directory: Path,
    checks: Mapping[str, Check],
    settings: JudgeSettings,
    spark: SparkSession,
    findings_max: int = FINDINGS_MAX,
) -> CheckResults:
    """Run these checks, given by name, on the run. Raises BadInput for a damaged table."""
    (results,) = judge_runs([RunInput(chunks_of(run_directory), checks, settings)], spark, findings_max)
    return results


def judge_runs(runs: Sequence[RunInput], spark: SparkSession, findings_max: int = FINDINGS_MAX) -> list[CheckResults]:
    """Run the checks of all the runs, each check on all of its runs at once.

    Every check builds its queries once, or once for each set of rules if it reads them. The results of each run are
    those of judging it alone. Raises BadInput if Spark cannot read the tables of one.
    """
    began = time.monotonic()
    tables = opened(spark, [each.chunks for each in runs])
    files = tuple(runs[0].chunks.of["history"]) if is_for_large_run(spark) else ()
    everything = replace(runs[0].settings, runs=tuple(range(len(runs))), history_files=files)

    def results_of(task: Task) -> Results:
        name, check, own = task
        return run_check(name, check, only(tables, own.runs, everything), own, findings_max)

    tasks = _tasks(runs, files)
    with shown(spark.sparkContext.statusTracker(), "judging"), ThreadPoolExecutor(checks_at_once(spark)) as pool:
        results = zip(tasks, pool.map(results_of, tasks), strict=True)
        of = {(name, run): each for (name, *_), of_runs in results for run, each in of_runs.items()}
    in_order = {
        number: [of[name, number] for name in (*run.checks, MEASURES_OF_SIDE) if (name, number) in of]
        for number, run in enumerate(runs)
    }
    found = {run: list(chain.from_iterable(each.findings for each in every)) for run, every in in_order.items()}
    timed = with_times(found, tables["history"], everything)
    seconds = (time.monotonic() - began) / len(runs)
    measured = {run: tuple(chain.from_iterable(each.quantities for each in every)) for run, every in in_order.items()}
    return [CheckResults(timed[run], measured[run], verdict_of(timed[run]), seconds) for run in everything.runs]


def _tasks(runs: Sequence[RunInput], history_files: tuple[Path, ...]) -> list[Task]:
    """Each check on its runs; those of settings that the check may not mix are apart."""
    alike: dict[Hashable, list[int]] = defaultdict(list)
    tasks: dict[Hashable, Task] = {}
    for number, run in enumerate(runs):
        checks = {**run.checks, **({MEASURES_OF_SIDE: MEASURES} if run.settings.measures else {})}
        for name, check in checks.items():
            key = name, _assumed(check, run.settings)
            alike[key].append(number)
            tasks.setdefault(key, (name, check, run.settings))
    return [
        (name, check, replace(settings, runs=tuple(alike[key]), history_files=history_files))
        for key, (name, check, settings) in tasks.items()
    ]


def _assumed(check: Check, settings: JudgeSettings) -> Hashable:
    """Equal for runs that a check may judge together."""
    rules = (settings.rules, frozenset(settings.node_rules.items())) if check.reads_rules else None
    return settings.idle, rules, settings.measures if check is MEASURES else ()


def opened(spark: SparkSession, runs: Sequence[Chunks]) -> Tables:
    """The tables of the runs. Raises BadInput if Spark cannot read one whose footer is whole."""
    try:
        return open_chunks(spark, runs)
    except (PySparkException, Py4JError) as error:
        place = runs[0].of["history"][0].parents[1]
        which = f"{place}" if len(runs) == 1 else f"{place} and {len(runs) - 1} more"
        raise BadInput(f"{which}: expected tables that Spark can read: {error_line(error)}") from error


def checks_at_once(spark: SparkSession) -> int:
    """One if each check needs memory for its rows; several if not, since planning their queries is much of the work."""
    return 1 if is_for_large_run(spark) else CHECKS_AT_ONCE


def run_check(name: str, check: Check, tables: Tables, settings: JudgeSettings, findings_max: int) -> Results:
    """One check's findings and quantities of each run; a crash is a finding.

    A check that does not handle many runs gets one after the other. So do the runs of a check that crashes, half by
    half, until only those are left that crash it.
    """
    if len(settings.runs) > 1 and not check.handles_many_runs:
        parts: list[tuple[int, ...]] = [(run,) for run in settings.runs]
    else:
        try:
            return results_of_check(check, tables, settings, findings_max)
        except Exception as crash:  # noqa: BLE001 - the other checks' and the other runs' results stand
            if len(settings.runs) == 1:
                message = f"check {name} crashed: {error_line(crash)}"
                return {settings.runs[0]: OfCheck([Finding(name, "check-crashed", "unknown", message)])}
        middle = len(settings.runs) // 2
        parts = [settings.runs[:middle], settings.runs[middle:]]
    results: Results = {}
    for runs in parts:
        results |= run_check(name, check, only(tables, runs, settings), replace(settings, runs=runs), findings_max)
    return results


def only(tables: Tables, runs: tuple[int, ...], settings: JudgeSettings) -> Tables:
    """The tables of these of the settings' runs."""
    if runs == settings.runs:
        return tables
    wanted = frozenset(runs)
    is_wanted = of_run({run: run in wanted for run in settings.runs}, "boolean", settings)
    return {name: rows.where(is_wanted) for name, rows in tables.items()}


def results_of_check(check: Check, tables: Tables, settings: JudgeSettings, findings_max: int) -> Results:
    """The findings and quantities of each run."""
    frames = [tables[table] for table in check.reads]

    def of_runs(rows: DataFrame) -> DataFrame:
        return rows if check.handles_many_runs else rows.withColumn(RUN, fn.lit(settings.runs[0]))

    found: Mapping[int, list[Row]] = {run: [] for run in settings.runs}
    for row in bounded(of_runs(check.findings(*frames, settings)), findings_max).collect():
        found[row[RUN]].append(row)
    measured: Mapping[int, list[Quantity]] = {run: [] for run in settings.runs}
    if check.quantities is not None:
        for row in of_runs(check.quantities(*frames, settings)).collect():
            measured[row[RUN]].append(Quantity(**{name: row[name] for name in QUANTITIES.names}))
    return {
        run: OfCheck(listed(found[run], findings_max), sorted(measured[run], key=lambda quantity: quantity.name))
        for run in settings.runs
    }


def collected(findings: DataFrame, findings_max: int) -> list[Finding]:
    """The first findings of each name of a run, and for a name with more one finding that counts them."""
    return listed(bounded(findings, findings_max).collect(), findings_max)


def bounded(findings: DataFrame, findings_max: int) -> DataFrame:
    """The first findings of each name of each run, with `rank` and, as `all`, their number.

    Rows without a name are not findings; all of them are kept.
    """
    by_name = Window.partitionBy(RUN, "name")
    first = by_name.orderBy("time_ns", "witnesses", "key", "node", "message")
    return (
        findings.withColumn("rank", fn.row_number().over(first))
        .withColumn("all", fn.count("*").over(by_name))
        .where((fn.col("rank") <= findings_max) | fn.col("name").isNull())
    )


def listed(rows: Iterable[Row], findings_max: int) -> list[Finding]:
    """The findings of a run's rows of bounded in order, and for a name with more one finding that counts them."""
    result = []
    for row in sorted(rows, key=lambda row: (row["name"], row["rank"])):
        fields = {name: row[name] for name in FINDINGS.names}
        result.append(Finding(**fields | {"witnesses": tuple(fields["witnesses"])}))
        if row["rank"] == findings_max < row["all"]:
            result.append(rest_of(result[-1], row["all"] - findings_max))
    return result


def with_times(
    findings: Mapping[int, Sequence[Finding]], history: DataFrame, settings: JudgeSettings
) -> Mapping[int, tuple[Finding, ...]]:
    """The findings of each run; those without a time of their own have the time and the node of their last witness."""
    last = {
        run: sorted({max(each.witnesses) for each in found if each.witnesses and each.time_ns is None})
        for run, found in findings.items()
    }
    if not any(last.values()):
        return {run: tuple(each) for run, each in findings.items()}
    index = fn.col("index")
    one = last[settings.runs[0]] if len(settings.runs) == 1 else None
    is_last = index.isin(one) if one else fn.array_contains(of_run(last, "array<bigint>", settings), index)
    rows = history.where(is_last).select(RUN, "index", "time_ns", "node").collect()
    where = {(row[RUN], row["index"]): {"time_ns": row["time_ns"], "node": row["node"]} for row in rows}
    return {
        run: tuple(
            replace(each, **where.get((run, max(each.witnesses, default=-1)), {})) if each.time_ns is None else each
            for each in found
        )
        for run, found in findings.items()
    }


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
