"""Changes of the voters that clients made: planted histories, and the plain twin on random ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from checkers.framework.contract import JudgeSettings
from checkers.framework.tables import configure_for
from checkers.quorum import voter_changes
from checkers.twins import voter_changes as twin
from harness.model import Finding, Op
from harness.model.story import FINAL_READS
from tests.support.checks.on_spark import history_table
from tests.support.checks.run_types import FindInRuns, Tables
from tests.support.checks.small_histories import history, nemesis_op

pytestmark = pytest.mark.spark

Rows = Sequence[Op]
SETTINGS = JudgeSettings()
RUN_STRIDE = 1000
"""More than the rows of a random history."""
FINAL = nemesis_op("mark", FINAL_READS)[1:]


def report(*voters: int, epoch: int = 1, target: list[int] | None = None, f: str = "voters") -> Rows:
    """Process 1 asks for the voters, and a leader reports them."""
    begin = Op("invoke", f, 1, "voters")
    value = {"leader": 2, "epoch": epoch, "voters": list(voters), "target": target}
    return begin, Op("ok", f, 1, "voters", value, node=2)


def change(f: str, node: int, end: str = "ok", epoch: int | None = 1, process: int = 0) -> Rows:
    """A process adds or removes a voter."""
    begin = Op("invoke", f, process, f"n{node}", node=1)
    return begin, ended(begin, end, epoch)


def reassign(*voters: int, end: str = "ok", epoch: int | None = 1) -> Rows:
    """Process 0 reassigns all voters."""
    begin = Op("invoke", "reassign", 0, "voters", list(voters), node=1)
    return begin, ended(begin, end, epoch)


def placed(
    *replicas: int, epoch: int = 1, target: list[int] | None = None, key: str = "log-1", f: str = "partition"
) -> Rows:
    """Process 1 asks where a partition is; without replicas and target, brokers do not agree."""
    begin = Op("invoke", f, 1, key)
    value = {"leader": 2, "epoch": epoch, "replicas": list(replicas) or None, "target": target}
    return begin, Op("ok", f, 1, key, value, node=2)


def move(*replicas: int, end: str = "ok", epoch: int | None = 1, key: str = "log-1") -> Rows:
    """Process 0 moves a partition."""
    begin = Op("invoke", "move", 0, key, list(replicas), node=1)
    return begin, ended(begin, end, epoch)


def ended(begin: Op, end: str, epoch: int | None) -> Op:
    if end == "ok":
        return begin.ok({"epoch": epoch})
    return begin.fail("refused") if end == "fail" else begin.info("no answer")


def run_of(*rows: Rows) -> Tables:
    """The run with these operations."""
    return Tables(history(*(op for each in rows for op in each)))


ADDED = change("add_voter", 4)
CASES: dict[str, tuple[Sequence[Rows], list[tuple[str, str]]]] = {
    "an acknowledged change that later leaders report": (
        [report(1, 2, 3), ADDED, report(1, 2, 3, 4), report(1, 2, 3, 4, epoch=2)],
        [],
    ),
    "an acknowledged change that a later leader does not report": (
        [report(1, 2, 3), ADDED, report(1, 2, 3, epoch=2)],
        [("lost-change", "n4")],
    ),
    "a deposed leader": ([report(1, 2, 3), change("add_voter", 4, epoch=2), report(1, 2, 3, epoch=1)], []),
    "a change after which no leader was seen": (
        [report(1, 2, 3), change("add_voter", 4, epoch=None), report(1, 2, 3, epoch=9)],
        [],
    ),
    "a report that began before the change ended": (
        [report(1, 2, 3), [report(1, 2, 3)[0], *ADDED, report(1, 2, 3)[1]]],
        [],
    ),
    "a refused change that a leader reports": (
        [report(1, 2, 3), change("add_voter", 4, "fail"), report(1, 2, 3, 4)],
        [("refused-change", "n4")],
    ),
    "a change without an answer, late": (
        [report(1, 2, 3), change("add_voter", 4, "info"), report(1, 2, 3), report(1, 2, 3, 4, epoch=5)],
        [],
    ),
    "a change without an answer, after the opposite was acknowledged": (
        [
            report(1, 2, 3),
            change("add_voter", 4, "info", process=2),
            change("remove_voter", 4),
            report(1, 2, 3, 4),
        ],
        [],
    ),
    "an older change that comes back": (
        [report(1, 2, 3), ADDED, change("remove_voter", 4), report(1, 2, 3, 4)],
        [("lost-change", "n4")],
    ),
    "voters that nobody requested": (
        [report(1, 2, 3), reassign(4, 5, 6), report(1, 5, 6, epoch=2)],
        [("refused-change", "voters")],
    ),
    "a reassignment that is pending, and done": (
        [report(1, 2, 3), reassign(4, 5, 6), report(1, 2, 3, target=[4, 5, 6]), report(6, 5, 4, epoch=2)],
        [],
    ),
    "an acknowledged reassignment that is lost": (
        [report(1, 2, 3), reassign(4, 5, 6), report(1, 2, 3, epoch=2)],
        [("lost-change", "voters")],
    ),
    "a move that is ongoing, and done": (
        [placed(1, 2), move(3, 4), placed(target=[4, 3]), placed(), placed(4, 3, epoch=2)],
        [],
    ),
    "an acknowledged move that is lost": (
        [placed(1, 2), move(3, 4), placed(1, 2, epoch=2)],
        [("lost-change", "log-1")],
    ),
    "a refused move that takes effect": (
        [placed(1, 2), move(3, 4, end="fail"), placed(target=[3, 4])],
        [("refused-change", "log-1")],
    ),
    "another partition, and the voters": (
        [
            placed(1, 2),
            placed(1, 2, key="log-2"),
            report(1, 2, 3),
            move(3, 4),
            placed(1, 2, key="log-2", epoch=2),
            report(1, 2, 3, epoch=2),
            placed(3, 4, epoch=2),
        ],
        [],
    ),
    "a partition that does not come to rest": (
        [placed(1, 2), move(3, 4), FINAL, [placed(f="moved")[0], placed(f="moved")[0].fail("not settled")]],
        [("no-convergence", "log-1")],
    ),
    "no first report": ([reassign(4, 5, 6, end="info"), reassign(4, 5, 6), report(4, 5, 6)], []),
    "a final operation that succeeds at the second attempt": (
        [report(1, 2, 3), ADDED, FINAL, change("add_voter", 1, "fail"), change("add_voter", 1)],
        [],
    ),
    "a final operation that never succeeds": (
        [report(1, 2, 3), ADDED, FINAL, change("add_voter", 1, "fail"), change("add_voter", 1, "info")],
        [("no-convergence", "n1")],
    ),
    "an earlier operation that does not succeed": (
        [report(1, 2, 3), ADDED, change("add_voter", 5, "info"), FINAL, report(1, 2, 3, 4, f="settle")],
        [],
    ),
}


REFUSED_CHANGE, REFUSED_MOVE = "one refused change", "one refused move"


@pytest.fixture(scope="module")
def found(find_in_runs: FindInRuns) -> dict[str, list[Finding]]:
    """The findings about each case, from one Spark job."""
    runs = {name: run_of(*rows) for name, (rows, _) in CASES.items()}
    alone = {REFUSED_CHANGE: change("add_voter", 4, "fail"), REFUSED_MOVE: move(3, 4, end="fail")}
    return find_in_runs("voter-changes", runs | {name: run_of(rows) for name, rows in alone.items()})


@pytest.mark.parametrize("name", CASES)
def test_findings(name: str, found: dict[str, list[Finding]]) -> None:
    assert [(each.name, each.key) for each in found[name] if each.severity == "invalid"] == CASES[name][1]
    assert {each.name for each in found[name] if each.severity != "invalid"} <= {"no-progress"}


def test_finding_names_the_change_and_the_report(found: dict[str, list[Finding]]) -> None:
    (one,) = found["an acknowledged change that a later leader does not report"]
    assert (one.check, one.node, one.witnesses) == ("voter-changes", 2, (2, 4, 5))
    assert one.message == (
        "an acknowledged change of the voters holds on every later leader: leader n2 of epoch 2 reports false for n4"
    )


def test_run_without_changes_or_reports_proves_nothing(found: dict[str, list[Finding]]) -> None:
    messages = {each.message: each.severity for each in found[REFUSED_CHANGE]}
    assert messages == {
        "no change of the voters was acknowledged": "unknown",
        "no leader reported the voters": "unknown",
    }


def test_run_without_moves_or_placements_proves_nothing(found: dict[str, list[Finding]]) -> None:
    messages = {each.message: each.severity for each in found[REFUSED_MOVE]}
    assert messages == {
        "no move of a partition was acknowledged": "unknown",
        "no leader reported where a partition is": "unknown",
    }


def test_finding_names_the_move(found: dict[str, list[Finding]]) -> None:
    lost = found["an acknowledged move that is lost"]
    assert [each.message for each in lost if each.severity == "invalid"] == [
        "an acknowledged move of a partition holds on every later leader: leader n2 of epoch 2 reports [1,2] for log-1"
    ]


def test_changes_are_counted_by_how_they_ended(spark: SparkSession) -> None:
    rows = [report(1, 2, 3), ADDED, change("add_voter", 5, "fail"), change("add_voter", 5, "info"), reassign(1)]
    rows.append(move(3, 4))
    table = history_table(spark, history(*(op for each in rows for op in each)))
    found = voter_changes.quantities(table, table.limit(0), SETTINGS).collect()
    assert {row["name"]: row["value"] for row in found} == {
        "voter_changes_acknowledged": 2,
        "voter_changes_refused": 1,
        "voter_changes_unknown": 1,
        "voter_change_ms_max": 1,
        "partition_moves_acknowledged": 1,
        "partition_moves_refused": 0,
        "partition_moves_unknown": 0,
        "partition_move_ms_max": 1,
    }


SEEDS = range(8)
RUNS_OF_SEED = 12
Reported = set[tuple[int, str, int, str]]
"""The run, name, last index and key of each report that no change explains."""


def runs_of(seed: int) -> dict[int, list[Op]]:
    """The seed's random runs by number; no other seed has these numbers."""
    numbers = range(100 * seed, 100 * seed + RUNS_OF_SEED)
    return {number: random_run(random.Random(number), number) for number in numbers}


@pytest.fixture(scope="module")
def unexplained(spark: SparkSession) -> Reported:
    """What Spark finds in the runs of all seeds, from one job."""
    ops = [op for seed in SEEDS for each in runs_of(seed).values() for op in each]
    configure_for(spark, rows=len(ops))
    by_run = history_table(spark, ops).withColumn("run", fn.floor(fn.col("index") / RUN_STRIDE).cast("int"))
    names = {True: "lost-change", False: "refused-change"}
    rows = voter_changes.unexplained(voter_changes.operations(by_run)).collect()
    return {(row["run"], names[row["was_possible"]], row["end"], row["key"]) for row in rows}


@pytest.mark.parametrize("seed", SEEDS)
def test_spark_and_its_plain_twin_agree(seed: int, unexplained: Reported) -> None:
    runs = runs_of(seed)
    expected = {(number, *each) for number, ops in runs.items() for each in twin.unexplained(ops)}
    assert {each for each in unexplained if each[0] in runs} == expected


def random_run(source: random.Random, run: int) -> list[Op]:
    """A history of a few processes that change and report voters, most reports right, in a run of this number."""
    as_a_whole, waiting, ops = source.random() < 0.4, {}, []
    voters, epoch = [1, 2, 3], 1
    for _ in range(source.randint(4, 30)):
        process = source.randrange(3)
        epoch += source.random() < 0.1
        if process in waiting:
            begin = waiting.pop(process)
            end = source.choices(["ok", "fail", "info"], [6, 1, 1])[0]
            ops.append(completed(begin, end, source, voters, epoch))
            continue
        begin = invoked(source, process, as_a_whole, is_read=process > 0)
        waiting[process] = begin
        ops.append(begin)
        if begin.f in twin.CHANGES and begin.f != "move" and source.random() < 0.9:
            voters = applied(voters, begin)
    return [replace(op, index=RUN_STRIDE * run + at, time_ns=at) for at, op in enumerate(ops)]


def invoked(source: random.Random, process: int, as_a_whole: bool, is_read: bool) -> Op:
    if is_read:
        f = source.choice(["voters", "voters", "partition"])
        return Op("invoke", f, process, "voters" if f == "voters" else source.choice(["log-0", "log-1"]))
    if source.random() < 0.4:
        return Op("invoke", "move", process, source.choice(["log-0", "log-1"]), source.choice([[1, 2, 3], [4, 5, 6]]))
    if as_a_whole:
        return Op("invoke", "reassign", process, "voters", source.choice([[1, 2, 3], [4, 5, 6], [3, 2]]))
    return Op("invoke", source.choice(["add_voter", "remove_voter"]), process, f"n{source.randint(3, 5)}")


def completed(begin: Op, end: str, source: random.Random, voters: list[int], epoch: int) -> Op:
    if begin.f in twin.CHANGES:
        return ended(begin, end, source.choice([None, epoch, epoch]))
    if end != "ok":
        return ended(begin, end, None)
    seen = voters if source.random() < 0.8 else source.choice([[1, 2, 3], [4, 5, 6], [1, 2]])
    target = source.choice([None, None, [4, 5, 6]])
    if begin.f == "partition":
        replicas = source.choice([None, [1, 2, 3], [3, 2, 1], [4, 5, 6]])
        return begin.ok(
            {"leader": 2, "epoch": max(1, epoch - source.randrange(2)), "replicas": replicas, "target": target}
        )
    return begin.ok({"leader": 2, "epoch": max(1, epoch - source.randrange(2)), "voters": seen, "target": target})


def applied(voters: list[int], begin: Op) -> list[int]:
    if begin.f == "reassign":
        return list(begin.value)
    node = int(str(begin.key)[1:])
    return sorted({*voters, node} if begin.f == "add_voter" else {*voters} - {node})
