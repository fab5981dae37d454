"""Many runs judged at once have the findings and quantities that each has alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from checkers.framework.contract import Check, finding, quantity
from checkers.framework.tables import Chunks, chunks_of
from checkers.run_checks import CheckResults, RunInput, judge_runs
from checkers.runs.measures import CHECK as MEASURES_OF_SIDE
from harness.model import BadInput
from harness.model.quorum_states import KIP_595_RULES
from harness.model.records.finding import verdict_of
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS, RECORDS, RPCS
from tests.checkers.conftest import write_chunks
from tests.support.checks import CHECKS, settings_with
from tests.support.checks.many_runs import RUNS
from tests.support.checks.run_types import Tables
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


OF_SERVERS, OF_CLIENTS = ("quorum", "divergence"), ("log", "promised-set", "register", "set", "transactions")
REPORTING: Mapping[str, Sequence[str]] = {
    "clients": [*OF_SERVERS, *OF_CLIENTS, "availability", "nemesis", "promised-reads", "responses", "voter-changes"],
    "nothing": [*OF_SERVERS, *OF_CLIENTS, "availability"],
    "servers": [
        *(*OF_SERVERS, *OF_CLIENTS, "availability", "promised-reads"),
        *("announcements", "invariants", "liveness", "servers"),
    ],
    "others": [*OF_SERVERS, "log", "register", "transactions", "availability", "promised-reads"],
}
"""The checks that have any finding or quantity in each run."""

OTHER_CHECKS, OTHER_RULES, OTHER_NODE_RULES, OTHER_ORDER = "other checks", "KIP-595", "node 2 by KIP-595", "other order"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Chunks]:
    folder = tmp_path_factory.mktemp("runs")
    return {name: written(folder / f"{number} é%20", run) for number, (name, run) in enumerate(RUNS.items())}


@pytest.fixture(scope="module")
def inputs(runs: Mapping[str, Chunks]) -> Mapping[str, RunInput]:
    """Each run with all checks, and two of them with other checks, in another order, and by other rules."""
    all_checks = {
        name: RunInput(runs[name], CHECKS, settings_with(measures=run.measures)) for name, run in RUNS.items()
    }
    of_first = {name: CHECKS[name] for name in ("quorum", "nemesis")}
    of_second = {name: CHECKS[name] for name in ("nemesis", "register", "quorum")}
    return all_checks | {
        OTHER_CHECKS: RunInput(runs["others"], of_first, settings_with()),
        OTHER_RULES: RunInput(runs["servers"], of_second, settings_with(rules=KIP_595_RULES)),
        OTHER_NODE_RULES: RunInput(runs["servers"], of_second, settings_with(node_rules={2: KIP_595_RULES})),
        OTHER_ORDER: RunInput(runs["servers"], of_second, settings_with()),
    }


@pytest.fixture(scope="module")
def together(spark: SparkSession, inputs: Mapping[str, RunInput]) -> Mapping[str, CheckResults]:
    """The results of each input, judged all at once."""
    return dict(zip(inputs, judge_runs(list(inputs.values()), spark), strict=True))


def comparable(results: CheckResults) -> Comparable:
    """What does not depend on the clock."""
    return results.findings, results.quantities, results.verdict


def of_checks(results: CheckResults, names: Iterable[str]) -> Comparable:
    """What these checks contribute, in this order."""
    findings = tuple(each for name in names for each in results.findings if each.check == name)
    quantities = tuple(each for name in names for each in results.quantities if each.check == name)
    return findings, quantities, verdict_of(findings)


@pytest.mark.timeout(240)
def test_runs_judged_at_once_have_the_results_of_each_alone(
    spark: SparkSession, inputs: Mapping[str, RunInput], together: Mapping[str, CheckResults]
) -> None:
    """A check that has nothing to say of a run is not run on it alone; all checks judge it among the others."""
    alone = {}
    for name, reporting in REPORTING.items():
        checks = {each: check for each, check in CHECKS.items() if each in reporting}
        alone[name] = judge_runs([replace(inputs[name], checks=checks)], spark)[0]
    for name in RUNS:
        assert comparable(together[name]) == comparable(alone[name.removesuffix(" again")]), name
    found = {each.check for results in alone.values() for each in results.findings if each.severity != "tolerated"}
    assert found == set(CHECKS)
    of_runs = [together[name] for name in RUNS]
    assert not [each for results in of_runs for each in results.findings if each.name == "check-crashed"]
    measured = {each.check for results in of_runs for each in results.quantities}
    assert measured >= {"availability", "quorum", "transactions", "promised-reads", "divergence", MEASURES_OF_SIDE}


def test_runs_of_other_checks_and_rules_have_the_results_of_each_alone(
    spark: SparkSession, inputs: Mapping[str, RunInput], together: Mapping[str, CheckResults]
) -> None:
    """The check `quorum` reads the rules, so it judges runs of other rules apart."""
    for name in (OTHER_RULES, OTHER_NODE_RULES):
        assert comparable(together[name]) == comparable(judge_runs([inputs[name]], spark)[0]), name
    # These have the rules of all runs, whose results the test before compares.
    for name, run in ((OTHER_CHECKS, "others"), (OTHER_ORDER, "servers")):
        assert comparable(together[name]) == of_checks(together[run], inputs[name].checks), name
    first, second, third = (
        {each.message for each in together[name].findings if each.name == "illegal-transition" and each.node == 2}
        for name in (OTHER_RULES, OTHER_NODE_RULES, OTHER_ORDER)
    )
    assert first == second != third, "the message names the rules"


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
    checks = {"plugin": Check(terms_went_back, rows_seen)}
    results = judge_runs([RunInput(each, checks, SETTINGS) for each in runs.values()], spark)
    assert [[each.node for each in one.findings] for one in results] == [[], [], [2], [], []]
    rows = [[each.value for each in one.quantities] for one in results]
    assert rows == [[len(run.observations)] for run in RUNS.values()]


def test_a_check_that_crashes_on_one_run_judges_the_others(spark: SparkSession, tmp_path: Path) -> None:
    bad = replace(read(0, 5)[1], f="cas", value="no pair")
    ops = {name: history(*read(0, 5)) for name in "abc"} | {"bad": history(replace(bad, type="invoke"), bad)}
    chunks = [written(tmp_path / name, Tables(each)) for name, each in ops.items()]
    inputs = [RunInput(each, {"register": CHECKS["register"]}, settings_with(idle=True)) for each in chunks]
    results = judge_runs(inputs, spark)
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
        judge_runs([RunInput(each, {"nemesis": CHECKS["nemesis"]}, SETTINGS) for each in (whole, damaged)], spark)
