"""Writes run directories from ops and observations, and runs checks on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyspark.sql import SparkSession

from checkers.framework import contract
from checkers.framework.tables import open_tables
from checkers.run_checks import FINDINGS_MAX, CheckResults, collected, judge, results_of_check
from harness.model import Finding, Observation, Op
from harness.model.faults.rpc import RpcRow
from harness.model.records.logged_batch import LoggedBatch
from harness.model.records.logged_record import LoggedRecord
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS, RECORDS, RPCS
from tests.support.checks import CHECKS, settings_with
from tests.support.checks.run_types import FindInRun, FindInRuns, JudgeRun, OpenRuns, Tables, WriteRun
from tests.support.checks.small_histories import row


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Writes the tables of a run, as write_tables does, and returns the run's directory."""

    def write(
        ops: Sequence[Op],
        observations: Sequence[Observation] = (),
        batches: Sequence[LoggedBatch] = (),
        records: Sequence[LoggedRecord] = (),
        rpcs: Sequence[RpcRow] = (),
    ) -> Path:
        return write_tables(tmp_path, Tables(ops, observations, batches, records, rpcs))

    return write


def write_tables(directory: Path, run: Tables) -> Path:
    """Write the tables of a run, each in two chunks where it has two rows, and return the run's directory.

    Without batches, records or RPCs there is no such table, as in runs that end too soon for one.
    """
    write_chunks(directory / "history", [row(op) for op in run.ops], HISTORY)
    write_chunks(directory / "observations", [asdict(seen) for seen in run.observations], OBSERVATIONS)
    if run.batches:
        write_chunks(directory / "batches", [asdict(batch) for batch in run.batches], BATCHES)
    if run.records:
        write_chunks(directory / "records", [asdict(record) for record in run.records], RECORDS)
    if run.rpcs:
        write_chunks(directory / "rpcs", [asdict(rpc) for rpc in run.rpcs], RPCS)
    return directory


def write_chunks(directory: Path, rows: list[dict], schema: pa.Schema) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    middle = len(rows) // 2
    for name, chunk in (("0.parquet", rows[:middle]), ("1.parquet", rows[middle:])):
        if chunk or name == "1.parquet":
            parquet.write_table(pa.Table.from_pylist(chunk, schema), directory / name)


@pytest.fixture
def judge_run(spark: SparkSession, write_run: WriteRun) -> JudgeRun:
    """Runs the named checks on ops and observations; settings by keyword."""

    def run_checks(
        checks: Sequence[str],
        ops: Sequence[Op],
        observations: Sequence[Observation] = (),
        batches: Sequence[LoggedBatch] = (),
        findings_max: int = 100,
        **settings: Any,
    ) -> CheckResults:
        named = {name: CHECKS[name] for name in checks}
        run = write_run(ops, observations, batches)
        return judge(run, named, settings_with(**settings), spark, findings_max)

    return run_checks


@pytest.fixture
def find_in_run(spark: SparkSession, write_run: WriteRun) -> FindInRun:
    """Only the findings of one check on ops, observations and batches, which takes a third of the time."""

    def found(
        name: str,
        ops: Sequence[Op],
        observations: Sequence[Observation],
        batches: Sequence[LoggedBatch] = (),
        records: Sequence[LoggedRecord] = (),
        rpcs: Sequence[RpcRow] = (),
        findings_max: int = FINDINGS_MAX,
        **settings: Any,
    ) -> list[Finding]:
        tables, check = open_tables(spark, write_run(ops, observations, batches, records, rpcs)), CHECKS[name]
        frames = [tables[table] for table in check.reads]
        return collected(check.findings(*frames, settings_with(**settings)), findings_max)

    return found


@pytest.fixture(scope="session")
def open_runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> OpenRuns:
    """Opens the tables of runs, whose rows the column `run` tells apart: each run's number in this order."""

    def opened(runs: Sequence[Tables]) -> contract.Tables:
        folder = tmp_path_factory.mktemp("runs")
        return open_tables(spark, *(write_tables(folder / str(number), run) for number, run in enumerate(runs)))

    return opened


@pytest.fixture(scope="session")
def find_in_runs(open_runs: OpenRuns) -> FindInRuns:
    """Only the findings of one check on each of many runs, by name, from one Spark job; settings by keyword.

    A job on many small runs takes little longer than one on a single run. The check must handle many runs.
    """

    def found(check_name: str, runs: Mapping[str, Tables], **settings: Any) -> dict[str, list[Finding]]:
        check = replace(CHECKS[check_name], quantities=None)
        assert check.handles_many_runs
        all_runs = settings_with(runs=tuple(range(len(runs))), **settings)
        results = results_of_check(check, open_runs(list(runs.values())), all_runs, FINDINGS_MAX)
        return {name: list(results[number].findings) for number, name in enumerate(runs)}

    return found
