"""Many runs judged at once have the findings and quantities that each has alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from checkers.framework.contract import Check, finding, quantity
from checkers.framework.tables import Chunks, chunks_of
from checkers.run_checks import CheckResults, judge_runs
from checkers.runs.measures import CHECK as MEASURES_OF_SIDE
from harness.model import BadInput
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS, RECORDS, RPCS
from tests.checkers.conftest import write_chunks
from tests.support.checks import CHECKS, settings_with
from tests.support.checks.many_runs import RUNS, Tables
from tests.support.checks.small_histories import history, read, row

pytestmark = pytest.mark.spark

SETTINGS = settings_with()
Comparable = tuple[Any, Any, Any]


def written(folder: Path, run: Tables) -> Chunks:
    """The run's tables on disk."""
    folder.mkdir()
    write_chunks(folder / "history", [row(op) for op in run.ops], HISTORY)
    for name, schema in {"observations": OBSERVATIONS, "batches": BATCHES, "records": RECORDS, "rpcs": RPCS}.items():
        if rows := [asdict(each) for each in getattr(run, name)]:
            write_chunks(folder / name, rows, schema)
    return chunks_of(folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Chunks]:
    folder = tmp_path_factory.mktemp("runs")
    return {name: written(folder / f"{number} é%20", run) for number, (name, run) in enumerate(RUNS.items())}


def comparable(results: CheckResults) -> Comparable:
    """What does not depend on the clock."""
    return results.findings, results.quantities, results.verdict


@pytest.mark.timeout(240)
def test_runs_judged_at_once_have_the_results_of_each_alone(spark: SparkSession, runs: Mapping[str, Chunks]) -> None:
    measures = [run.measures for run in RUNS.values()]
    together = judge_runs(list(runs.values()), CHECKS, SETTINGS, spark, measures)
    alone = {
        name: judge_runs([runs[name]], CHECKS, SETTINGS, spark, [RUNS[name].measures])[0]
        for name in RUNS
        if name != "clients again"
    }
    for name, results in zip(runs, together, strict=True):
        assert comparable(results) == comparable(alone[name.removesuffix(" again")]), name
    found = {each.check for results in alone.values() for each in results.findings if each.severity != "tolerated"}
    assert found == set(CHECKS)
    assert not [each for results in together for each in results.findings if each.name == "check-crashed"]
    measured = {each.check for results in together for each in results.quantities}
    assert measured >= {"availability", "quorum", "transactions", "promised-reads", "divergence", MEASURES_OF_SIDE}


def terms_went_back(_history: DataFrame, observations: DataFrame, _settings: Any) -> DataFrame:
    """A check that knows nothing of runs."""
    before = Window.partitionBy("node").orderBy("time_ns").rowsBetween(Window.unboundedPreceding, -1)
    rows = observations.withColumn("before", fn.max("epoch").over(before)).where("epoch < before")
    return finding(rows.select("node", "epoch"), "plugin", "went-back", fn.lit("back"), node=fn.col("node"))


def rows_seen(_history: DataFrame, observations: DataFrame, _settings: Any) -> DataFrame:
    return quantity(observations.agg(fn.count("*").alias("rows")), "plugin", "rows", fn.col("rows"), "rows")


def test_a_check_that_knows_nothing_of_runs_gets_one_after_the_other(
    spark: SparkSession, runs: Mapping[str, Chunks]
) -> None:
    results = judge_runs(list(runs.values()), {"plugin": Check(terms_went_back, rows_seen)}, SETTINGS, spark)
    assert [[each.node for each in one.findings] for one in results] == [[], [], [2], [], []]
    rows = [[each.value for each in one.quantities] for one in results]
    assert rows == [[len(run.observations)] for run in RUNS.values()]


def test_a_check_that_crashes_on_one_run_judges_the_others(spark: SparkSession, tmp_path: Path) -> None:
    bad = replace(read(0, 5)[1], f="cas", value="no pair")
    ops = {name: history(*read(0, 5)) for name in "abc"} | {"bad": history(replace(bad, type="invoke"), bad)}
    chunks = [written(tmp_path / name, Tables(each)) for name, each in ops.items()]
    results = judge_runs(chunks, {"register": CHECKS["register"]}, settings_with(idle=True), spark)
    names = [[each.name for each in one.findings] for one in results]
    assert names == [["non-linearizable"]] * 3 + [["check-crashed"]]


def test_a_file_damaged_behind_its_footer_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    whole = written(tmp_path / "whole", Tables(history(*read(0, 5))))
    damaged = written(tmp_path / "damaged", Tables(history(*read(0, 5))))
    file = damaged.of["history"][-1]
    column = parquet.read_metadata(file).row_group(0).column(6)
    content = bytearray(file.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + 30] = bytes([255] * 30)
    file.write_bytes(content)
    with pytest.raises(BadInput, match=f"{file}: expected a whole Parquet file"):
        judge_runs([whole, damaged], {"nemesis": CHECKS["nemesis"]}, SETTINGS, spark)
