"""Servers that end without a request are findings; those that the run ends are not."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from checkers.framework.contract import JudgeSettings
from checkers.framework.tables import configure_for
from checkers.run_checks import collected
from checkers.runs.servers import SERVERS
from checkers.twins import servers as twin
from harness import plugins
from harness.model import NEMESIS, Finding, Observation, Op
from tests.support.checks.on_spark import history_table, observation_table
from tests.support.checks.small_histories import MS, history, nemesis_op

pytestmark = pytest.mark.spark

CAUSE = "exit 1: java.lang.IllegalStateException: no"
SETTINGS = JudgeSettings(ops=plugins.ops())


def process(ms: int, node: int, kind: str, detail: str | None = None) -> Observation:
    return Observation(ms * MS, node, "process", kind, detail=detail)  # type: ignore[arg-type]


def leads(ms: int, node: int, epoch: int) -> Observation:
    return Observation(ms * MS, node, "log", "transition", "Leader", "Candidate", epoch)


def disk_fault(nodes: list[int]) -> tuple[Op, Op]:
    return nemesis_op("fill_disk", {"nodes": nodes, "label": "n1 has 0 bytes left on its disk"})


def found_in(spark: SparkSession, ops: list[Op], seen: list[Observation]) -> list[Finding]:
    configure_for(spark, rows=1)
    return collected(SERVERS.findings(history_table(spark, ops), observation_table(spark, seen), SETTINGS), 1000)


def test_leader_that_exits_is_invalid_with_its_epoch_and_its_last_error(spark: SparkSession) -> None:
    seen = [process(1, 2, "started"), leads(5, 2, 7), process(9, 2, "exited", CAUSE)]
    [exited] = found_in(spark, [], seen)
    assert (exited.name, exited.severity, exited.node, exited.time_ns) == ("server-exited", "invalid", 2, 9 * MS)
    assert exited.message == f"a server runs until it is told to end: node 2, leader of epoch 7, ended: {CAUSE}"


def test_each_start_that_fails_is_a_finding_of_its_own_name(spark: SparkSession) -> None:
    seen = [process(1, 2, "started"), leads(5, 2, 7), process(9, 2, "stopped", "SIGTERM")]
    seen += [each for ms in (20, 30) for each in (process(ms, 2, "started"), process(ms + 3, 2, "exited", CAUSE))]
    found = found_in(spark, [], seen)
    assert [(each.name, each.time_ns) for each in found] == [("server-cannot-start", ms * MS) for ms in (23, 33)]
    assert found[0].message == f"a server runs until it is told to end: node 2 ended at its start: {CAUSE}"


def test_ends_that_the_run_requested_are_no_findings(spark: SparkSession) -> None:
    ends = ("SIGKILL", "SIGTERM", "exit 143", "exit 0", "exit 1")
    seen = [process(2 * number, number, "started") for number in range(1, 6)]
    seen += [process(50 + number, number, "stopped", how) for number, how in enumerate(ends, 1)]
    assert found_in(spark, history(*nemesis_op("kill", {"nodes": [1, 2, 3, 4, 5]})), seen) == []


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "exit 143", "connection lost", "exit 143: an Error: last words"])
def test_an_end_from_outside_is_unknown(spark: SparkSession, how: str) -> None:
    [ended] = found_in(spark, [], [process(1, 2, "started"), process(9, 2, "exited", how)])
    assert ended.severity == "unknown"


def test_a_program_that_cannot_be_loaded_is_unknown_even_after_a_disk_fault(spark: SparkSession) -> None:
    ops = history(Op("info", "mark", NEMESIS, time_ns=0, value="story"), *disk_fault([1]))
    reasons = (
        "ImportError: cannot import name 'x'",
        "java.lang.NoClassDefFoundError: kafka/Kafka",
        "IOError: ImportError",
    )
    seen = [each for ms in (1, 3, 5) for each in (process(10 + ms, 1, "started"),)]
    seen += [process(11 + 2 * at, 1, "exited", f"exit 1: {reason}") for at, reason in enumerate(reasons)]
    found = {each.message.rpartition(" start: ")[2]: each.severity for each in found_in(spark, ops, seen)}
    assert list(found.values()) == ["unknown", "unknown", "tolerated"]


def test_an_exit_is_tolerated_after_a_disk_fault_on_the_same_node_only(spark: SparkSession) -> None:
    ops = history(Op("info", "mark", NEMESIS, time_ns=0, value="story"), *disk_fault([1]))
    seen = [process(0, node, "started") for node in (1, 2)]
    seen += [process(1 + ms, node, "exited", "exit 1") for ms, node in ((10, 1), (10, 2))]
    assert [(each.node, each.severity) for each in found_in(spark, ops, seen)] == [(1, "tolerated"), (2, "invalid")]


@pytest.mark.parametrize("f", ["slow_disk", "lose_unsynced"])
def test_an_exit_after_a_slow_disk_or_a_power_failure_is_not_tolerated(spark: SparkSession, f: str) -> None:
    ops = history(Op("info", "mark", NEMESIS, time_ns=0, value="story"), *nemesis_op(f, {"nodes": [1]}))
    seen = [process(0, 1, "started"), process(11, 1, "exited", "exit 1")]
    assert [(each.node, each.severity) for each in found_in(spark, ops, seen)] == [(1, "invalid")]


def test_a_disk_fault_that_failed_may_have_hit_any_node_and_a_later_one_excuses_nothing(spark: SparkSession) -> None:
    failed = Op(
        "info",
        "fill_disk",
        NEMESIS,
        value={"who": "n1"},
        error="verifying fill_disk on n1: no",
        time_ns=20 * MS,
        index=1,
    )
    ops = [Op("invoke", "fill_disk", NEMESIS, value={"who": "n1"}, index=0, time_ns=10 * MS), failed]
    seen = [process(5, 1, "exited", "exit 1"), process(15, 2, "exited", "exit 1")]
    assert [(each.node, each.severity) for each in found_in(spark, ops, seen)] == [(1, "invalid"), (2, "tolerated")]


def test_exits_agree_with_their_twin_on_random_observations(spark: SparkSession) -> None:
    source = random.Random(3)
    kinds = ("started", "exited", "stopped", "transition", "claim", "denial", "silence", "durable")
    seen = [
        Observation(source.randrange(400), node, "log", source.choice(kinds), epoch=1, detail="exit 1")  # type: ignore[arg-type]
        for node in range(1, 60)
        for _ in range(8)
    ]
    unique = list({(each.node, each.time_ns): each for each in seen}.values())
    found = [(each.name, each.node, each.time_ns) for each in found_in(spark, [], unique)]
    assert sorted(found) == sorted(twin.exits(unique))
    assert {name for name, _, _ in found} == {"server-exited", "server-cannot-start"}
