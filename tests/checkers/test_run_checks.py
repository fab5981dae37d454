"""Checks on a run directory: damaged tables, bounded findings, crashed checks, quantities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from checkers.framework.contract import FINDING_SCHEMA, Check, JudgeSettings
from checkers.run_checks import judge
from harness import plugins
from harness.model import NEMESIS, BadInput, Op, Verdict
from harness.model.records.logged_batch import LoggedBatch
from harness.model.records.tables import ADDED_LATER, BATCHES
from tests.support.checks import CHECKS
from tests.support.checks.run_types import JudgeRun, WriteRun
from tests.support.checks.small_histories import MS, history, nemesis_op, read, write

pytestmark = pytest.mark.spark

OPS = history(*write(0, 1), *read(1, 1), *write(0, 2), *read(1, 2))


def truncate(run: Path) -> Path:
    file = run / "history" / "1.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    return file


def remove_the_first_chunk(run: Path) -> Path:
    (run / "history" / "0.parquet").unlink()
    return run / "history" / "1.parquet"


def remove_every_chunk(run: Path) -> Path:
    for file in (run / "history").iterdir():
        file.unlink()
    return run / "history"


def put_another_table(run: Path) -> Path:
    file = run / "observations" / "1.parquet"
    file.write_bytes((run / "history" / "1.parquet").read_bytes())
    return file


@pytest.mark.parametrize("harm", [truncate, remove_the_first_chunk, remove_every_chunk, put_another_table])
def test_a_damaged_table_is_refused_by_name(
    harm: Callable[[Path], Path], spark: SparkSession, write_run: WriteRun
) -> None:
    run = write_run(OPS, ())
    named = harm(run)
    with pytest.raises(BadInput, match="expected") as refusal:
        judge(run, {"register": CHECKS["register"]}, JudgeSettings(), spark)
    assert str(refusal.value).startswith(f"{named}: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", [".2.parquet", "2.parquet.tmp"])
def test_an_unfinished_chunk_is_skipped(name: str, spark: SparkSession, write_run: WriteRun) -> None:
    run = write_run(OPS, ())
    (run / "history" / name).write_bytes(b"half a chunk")
    assert judge(run, {"register": CHECKS["register"]}, JudgeSettings(), spark).verdict is Verdict.VALID


def test_an_unknown_check_is_refused_with_the_known_ones() -> None:
    known = (
        "announcements, availability, divergence, invariants, liveness, log, nemesis, promised-reads, promised-set, "
        "quorum, register, responses, servers, set"
    )
    with pytest.raises(BadInput, match=f"check 'registre': expected one of {known}"):
        plugins.check("registre")


def crash_here(*_: Any) -> DataFrame:
    raise ArithmeticError("seven is not a number")


def crash_in_a_worker(history_: DataFrame, *_: Any) -> DataFrame:
    def refuse(_batches: Any) -> Any:
        raise BadInput("history index 3: expected a pair")

    return history_.mapInArrow(refuse, FINDING_SCHEMA)


@pytest.mark.parametrize(
    ("crash", "words"), [(crash_here, "seven is not a number"), (crash_in_a_worker, "history index 3: expected a pair")]
)
def test_a_crashed_check_is_unknown_and_the_others_still_run(
    crash: Any, words: str, judge_run: JudgeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHECKS, "broken", Check(crash))
    results = judge_run(["broken", "register"], history(*read(0, 5)))
    assert [(found.check, found.name) for found in results.findings] == [
        ("broken", "check-crashed"),
        ("register", "non-linearizable"),
    ]
    assert words in results.findings[0].message
    assert "\n" not in results.findings[0].message


def test_a_fault_without_effect_makes_the_run_unknown(judge_run: JudgeRun) -> None:
    failed = Op("info", "cut", NEMESIS, error="links (1, 2) pass though cut")
    results = judge_run(["nemesis", "register"], history(*write(0, 1), *read(0, 1), failed, *nemesis_op("heal")))
    assert [(found.name, found.witnesses) for found in results.findings] == [("fault-not-effective", (4,))]
    assert results.verdict is Verdict.UNKNOWN


def test_findings_are_bounded_and_the_rest_is_counted(judge_run: JudgeRun) -> None:
    ops = history(*(op for key in range(7) for op in read(0, 5, key=f"k{key}")))
    results = judge_run(["register"], ops, findings_max=3)
    assert [found.count for found in results.findings] == [1, 1, 1, 4]
    assert results.findings[-1].message == "and 4 more like these"


def test_finding_has_the_time_and_the_node_of_its_last_witness(judge_run: JudgeRun) -> None:
    ops = [replace(op, node=number // 2) for number, op in enumerate(history(*write(0, 1), *read(1, 1), *read(1, 5)))]
    (finding,) = judge_run(["register"], ops).findings
    last = ops[max(finding.witnesses)]
    assert (finding.time_ns, finding.node) == (last.time_ns, last.node)
    assert last.time_ns > 0


def test_clients_are_measured_from_the_mark_on(judge_run: JudgeRun) -> None:
    timed = [
        (0, write(0, 1)[0]), (5, write(0, 1)[1]),
        (10, nemesis_op("mark", "story")[1]), (20, nemesis_op("cut")[1]), (21, nemesis_op("cut")[1]),
        (30, read(1, 1)[0]), (34, read(1, 1)[1]),
        (40, read(1, 1)[0]), (48, Op("info", "read", 1, "x")),
        (85, nemesis_op("heal")[1]), (90, nemesis_op("heal")[1]),
        (91, read(2, 1)[0]), (97, read(2, 1)[1]), (110, nemesis_op("end")[1]),
    ]  # fmt: skip
    ops = history(*(Op(op.type, op.f, op.process, op.key, op.value, time_ns=ms * MS) for ms, op in timed))
    results = judge_run(["availability"], ops)
    assert {quantity.name: quantity.value for quantity in results.quantities} == pytest.approx(
        {
            "ok_count": 2, "fail_count": 0, "info_count": 1, "ok_per_second": 20,
            "unavailable_ms_max": 63, "clients_recovered": 1, "clients_recover_ms": 7,
            "latency_read_ms_p50": 5, "latency_read_ms_p95": 5.9, "latency_read_ms_p99": 5.98, "latency_read_ms_max": 6,
            **{f"latency_read_in_faults_ms_{name}": 4 for name in ("p50", "p95", "p99", "max")},
            **{f"latency_read_out_of_faults_ms_{name}": 6 for name in ("p50", "p95", "p99", "max")},
        }
    )  # fmt: skip


def test_a_run_without_clients_has_no_client_quantities(judge_run: JudgeRun) -> None:
    results = judge_run(["availability"], history(*nemesis_op("cut"), *nemesis_op("heal")), idle=True)
    assert (results.findings, results.quantities) == ((), ())


def test_the_session_prints_nothing_when_a_job_fails(spark: SparkSession, capfd: pytest.CaptureFixture) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.range(3).select(fn.expr("1 / (id - id)")).collect()
    assert capfd.readouterr() == ("", "")


def test_a_run_from_before_a_column_was_added_is_checked(spark: SparkSession, write_run: WriteRun) -> None:
    batches = [LoggedBatch(1, "__cluster_metadata", 0, 0, 0, 1, 77)]
    run = write_run(history(*nemesis_op("heal")), [], batches)
    for chunk in (run / "batches").iterdir():
        older = parquet.read_table(chunk).drop_columns(sorted(ADDED_LATER & set(BATCHES.names)))
        parquet.write_table(older, chunk)
    assert judge(run, {"divergence": CHECKS["divergence"]}, JudgeSettings(), spark).findings == ()
