"""Writes run directories from ops and observations, and runs checks on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyspark.sql import SparkSession

from checkers.framework.tables import open_tables
from checkers.run_checks import FINDINGS_MAX, CheckResults, collected, judge
from harness.model import Finding, Observation, Op
from harness.model.faults.rpc import RpcRow
from harness.model.records.logged_batch import LoggedBatch
from harness.model.records.logged_record import LoggedRecord
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS, RECORDS, RPCS
from tests.support.checks import CHECKS, settings_with
from tests.support.checks.run_types import FindInRun, JudgeRun, WriteRun
from tests.support.checks.small_histories import row


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Writes the tables of a run, each in two chunks where it has two rows, and returns the run's directory.

    Without batches, records or RPCs there is no such table, as in runs that end too soon for one.
    """

    def write(
        ops: Sequence[Op],
        observations: Sequence[Observation] = (),
        batches: Sequence[LoggedBatch] = (),
        records: Sequence[LoggedRecord] = (),
        rpcs: Sequence[RpcRow] = (),
    ) -> Path:
        write_chunks(tmp_path / "history", [row(op) for op in ops], HISTORY)
        write_chunks(tmp_path / "observations", [asdict(seen) for seen in observations], OBSERVATIONS)
        if batches:
            write_chunks(tmp_path / "batches", [asdict(batch) for batch in batches], BATCHES)
        if records:
            write_chunks(tmp_path / "records", [asdict(record) for record in records], RECORDS)
        if rpcs:
            write_chunks(tmp_path / "rpcs", [asdict(rpc) for rpc in rpcs], RPCS)
        return tmp_path

    return write


def write_chunks(directory: Path, rows: list[dict], schema: pa.Schema) -> None:
    directory.mkdir(exist_ok=True)
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
