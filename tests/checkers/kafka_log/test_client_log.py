"""The log check on histories short enough to verify by eye, each finding planted once, and on random ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.framework.contract import JudgeSettings
from checkers.kafka_log import client_log as log
from checkers.kafka_log import group_offsets
from checkers.twins import log as log_twin
from harness.model import Finding, Op, Verdict
from harness.model.records.finding import verdict_of
from harness.model.records.tables import HISTORY
from tests.support.checks.on_spark import findings_of_each
from tests.support.checks.run_types import FindInRun, JudgeRun
from tests.support.checks.small_histories import history, nemesis_op, row
from tests.support.checks.small_logs import (
    assigned,
    commit,
    committed,
    drain,
    found_by_kernel,
    led_send,
    lost_commit,
    lost_send,
    poll,
    random_case,
    send,
    send_all,
)

ONE, TWO, THREE = (0, 1), (1, 2), (2, 3)
FIRST, SECOND = Op("invoke", "send", 0, "log-0", 1), Op("invoke", "send", 1, "log-0", 2)
COMMITS, OTHER = commit(2, 2), commit(3, 1)
BROKEN_POLL = Op("invoke", "poll", 2)

VALID = {
    "polls and the drain see what was sent": [
        *send(0, 1, 0), *send(0, 2, 1), *poll(2, ONE), *poll(2, TWO), *drain(2, ONE, TWO),
    ],
    "concurrent sends are in either order": [
        FIRST, SECOND, FIRST.ok({"offset": 1, "value": 1}), SECOND.ok({"offset": 0, "value": 2}),
        *drain(2, (0, 2), (1, 1)),
    ],
    "a send of unknown end is in the log": [*lost_send(0, 1), *poll(2, ONE), *drain(2, ONE)],
    "a send of unknown end is not in the log": [*lost_send(0, 1), *send(1, 2, 0), *drain(2, (0, 2))],
    "a send that failed is not in the log": [*lost_send(0, 1, "fail"), *send(1, 2, 0), *drain(2, (0, 2))],
    "a send that the leader alone acknowledged is lost, and its offset is another's": [
        *led_send(0, 1, 0), *led_send(0, 2, 0), *drain(2, (0, 2)),
    ],
    "a send that the leader alone acknowledged is in the log": [*led_send(0, 1, 0), *poll(2, ONE), *drain(2, ONE)],
    "offsets have gaps": [*send(0, 1, 0), *send(0, 2, 7), *poll(2, ONE, (7, 2)), *drain(2, ONE, (7, 2))],
    "a process begins anew": [
        *send(0, 1, 0), *send(0, 2, 1), *poll(2, ONE, TWO), *assigned(2), *poll(2, ONE), *drain(2, ONE, TWO),
    ],
    "another process begins at the beginning": [
        *send(0, 1, 0), *send(0, 2, 1), *poll(2, ONE, TWO), *poll(3, ONE), *drain(2, ONE, TWO),
    ],
    "partitions have their own offsets": [
        *send(0, 1, 0, "log-0"), *send(0, 1, 0, "log-1"), *poll(2, ONE, key="log-1"), *drain(2, ONE, key="log-0"),
        *drain(2, ONE, key="log-1"),
    ],
    "a group's members commit what is ahead": [
        *send(0, 1, 0), *send(0, 2, 1), *commit(2, 1), *committed(3, 1), *commit(4, 2), *committed(3, 2, at_last=True),
        *drain(2, ONE, TWO),
    ],
    "a commit that was refused, or has no end, is behind": [
        *send(0, 1, 0), *commit(2, 1), *lost_commit(3, 0, "fail"), *lost_commit(4, 0), *committed(2, 1), *drain(2, ONE),
    ],
    "a commit of unknown end took effect": [
        *send(0, 1, 0), *commit(2, 0), *lost_commit(3, 1), *committed(2, 1), *committed(2, 1, at_last=True),
        *drain(2, ONE),
    ],
    "two commits at once are in either order": [
        *send(0, 1, 0), *send(0, 2, 1), COMMITS[0], OTHER[0], COMMITS[1], OTHER[1], *drain(2, ONE, TWO),
    ],
    "partitions have their own committed offsets": [
        *send(0, 1, 0), *commit(2, 1), *commit(2, 0, "log-1"), *committed(2, None, "log-2"), *drain(2, ONE),
    ],
    "a poll returns nothing": [*send(0, 1, 0), *poll(2), *poll(2, ONE), *drain(2, ONE)],
}  # fmt: skip

BROKEN = {
    "an offset holds two values": (
        [*send(0, 1, 0), *send(0, 2, 1), *poll(2, (0, 1), (1, 1)), *drain(2, ONE, TWO)],
        [("duplicate", (0, 1, 4, 5)), ("inconsistent-offsets", (2, 3, 4, 5))],
    ),
    "a value is at two offsets": (
        [*send(0, 1, 0), *poll(2, ONE), *drain(2, (0, 1), (1, 1))], [("duplicate", (0, 1, 4, 5))],
    ),
    "an acknowledged write below the highest read offset is never read": (
        [*send(0, 1, 0), *send(0, 2, 1), *send(0, 3, 2), *poll(2, ONE), *poll(2, THREE)],
        [("lost-write", (2, 3, 8, 9)), ("not-drained", (4, 5)), ("poll-skip", (6, 7, 8, 9))],
    ),
    "a write that was read is not in the drained log": (
        [*lost_send(0, 1), *send(0, 2, 1), *poll(2, ONE, TWO), *drain(2, TWO)], [("lost-write", (4, 5, 6, 7))],
    ),
    "an acknowledged write gave its place to another after it was read": (
        [*send(0, 1, 0), *poll(2, ONE), *send(1, 2, 0), *drain(3, (0, 2))],
        [("inconsistent-offsets", (0, 1, 4, 5)), ("lost-write", (0, 1, 6, 7))],
    ),
    "an acknowledged write is not in the drained log": (
        [*send(0, 1, 0), *send(0, 2, 1), *drain(2, ONE)], [("unseen", (2, 3, 4, 5))],
    ),
    "the drained log is empty": (
        [*send(0, 1, 0), *poll(2, ONE), *send(0, 2, 1), *drain(2)],
        [("lost-write", (0, 1, 6, 7)), ("unseen", (4, 5, 6, 7))],
    ),
    "a write that failed is read": (
        [*lost_send(0, 1, "fail"), *poll(2, ONE), *drain(2, ONE)], [("aborted-read", (0, 1, 2, 3))],
    ),
    "a write whose producer was fenced is read": (
        [*lost_send(0, 1, "fail", refusal="_FENCED"), *poll(2, ONE), *drain(2, ONE)],
        [("zombie-write", (0, 1, 2, 3))],
    ),
    "a value that was never sent is read": ([*send(0, 1, 0), *drain(2, (0, 1), (1, 9))], [("phantom-read", (2, 3))]),
    "what was sent to another partition is read": (
        [*send(0, 1, 0, "log-1"), *poll(2, ONE, key="log-0"), *drain(2, ONE, key="log-1")], [("phantom-read", (2, 3))],
    ),
    "a value is read before it is sent": (
        [*poll(2, ONE), *send(0, 1, 0), *drain(2, ONE)], [("phantom-read", (0, 1, 2))],
    ),
    "a failed poll returns a value that was never sent": (
        [*send(0, 1, 0), BROKEN_POLL, replace(BROKEN_POLL.info("_TRANSPORT"), value={"log-0": [[1, 9]]}),
         *drain(3, ONE)],
        [("phantom-read", (2, 3))],
    ),
    "a process's polls skip a record": (
        [*send(0, 1, 0), *send(0, 2, 1), *send(0, 3, 2), *poll(2, ONE), *poll(2, THREE), *drain(2, ONE, TWO, THREE)],
        [("poll-skip", (6, 7, 8, 9))],
    ),
    "a process's polls go back": (
        [*send(0, 1, 0), *send(0, 2, 1), *poll(2, ONE, TWO), *poll(2, ONE), *drain(2, ONE, TWO)],
        [("nonmonotonic-poll", (4, 5, 6, 7))],
    ),
    "a poll skips a record": (
        [*send(0, 1, 0), *send(0, 2, 1), *send(0, 3, 2), *poll(2, ONE, THREE), *drain(2, ONE, TWO, THREE)],
        [("int-poll-skip", (6, 7))],
    ),
    "a drain goes back": (
        [*send(0, 1, 0), *send(0, 2, 1), *drain(2, TWO, ONE)], [("int-nonmonotonic-poll", (4, 5))],
    ),
    "a process's sends go back": (
        [*send(0, 1, 1), *send(0, 2, 0), *drain(2, (0, 2), (1, 1))],
        [("nonlinearizable-log", (0, 1, 2, 3)), ("nonmonotonic-send", (0, 1, 2, 3))],
    ),
    "a later send of another process has a lower offset": (
        [*send(0, 1, 1), *send(1, 2, 0), *drain(2, (0, 2), (1, 1))], [("nonlinearizable-log", (0, 1, 2, 3))],
    ),
    "a later send with an unknown outcome has a lower offset": (
        [*send(0, 1, 1), *lost_send(1, 2), *drain(2, (0, 2), (1, 1))], [("nonlinearizable-log", (0, 1, 4, 5))],
    ),
    "a group's commit goes back": (
        [*send(0, 1, 0), *commit(2, 1), *commit(3, 0), *drain(2, ONE)],
        [("committed-offset-regression", (2, 3, 4, 5))],
    ),
    "a group's commit is behind what was seen of one of unknown end": (
        [*send(0, 1, 0), *lost_commit(2, 1), *committed(3, 1), *commit(3, 0), *drain(2, ONE)],
        [("committed-offset-regression", (4, 5, 6, 7))],
    ),
    "a group's committed offset is lost at last": (
        [*send(0, 1, 0), *commit(2, 0), *committed(3, None, at_last=True), *drain(2, ONE)],
        [("committed-offset-regression", (2, 3, 4, 5))],
    ),
    "one send's records are out of order": (
        [*send_all(0, (1, 1), (0, 2)), *drain(2, (0, 2), (1, 1))], [("int-nonmonotonic-send", (0, 1))],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Finding]]:
    """The findings about each history, from one Spark job."""
    return findings_of_each(spark, "log", VALID | {name: ops for name, (ops, _) in BROKEN.items()})


@pytest.mark.spark
@pytest.mark.parametrize("name", VALID)
def test_log_is_correct_when(name: str, found: dict[str, list[Finding]]) -> None:
    assert found[name] == []


@pytest.mark.spark
@pytest.mark.parametrize("name", BROKEN)
def test_log_is_broken_when(name: str, found: dict[str, list[Finding]]) -> None:
    assert [(each.name, each.witnesses) for each in found[name]] == BROKEN[name][1]
    assert verdict_of(found[name]) is Verdict.INVALID


@pytest.mark.spark
def test_polls_of_a_group_member_may_skip_and_go_back(find_in_run: FindInRun) -> None:
    ops = [*send(0, 1, 0), *send(0, 2, 1), *send(0, 3, 2), *assigned(2, "subscribe"), *poll(2, ONE), *poll(2, THREE)]
    findings = find_in_run("log", history(*ops, *poll(2, TWO), *drain(3, ONE, TWO, THREE)), [])
    assert [(found.name, found.severity) for found in findings] == [
        ("nonmonotonic-poll", "tolerated"), ("poll-skip", "tolerated"),
    ]  # fmt: skip


@pytest.mark.spark
def test_a_stale_committed_offset_is_tolerated_before_the_final_reads(find_in_run: FindInRun) -> None:
    ops = [*send(0, 1, 0), *commit(2, 1), *committed(3, None), *committed(3, 0), *committed(3, 1, at_last=True)]
    findings = find_in_run("log", history(*ops, *drain(3, ONE)), [])
    assert [(found.name, found.severity) for found in findings] == [("stale-committed-offset", "tolerated")] * 2
    assert findings[0].message == (
        "key log-0: a group's committed offset never goes back: commit of 1 (index 2 to 3), then committed of no "
        "offset (index 4 to 5)"
    )


@pytest.mark.spark
def test_other_records_among_those_of_one_send_are_tolerated(find_in_run: FindInRun) -> None:
    ops = history(*send_all(0, (0, 1), (2, 3)), *send(1, 2, 1), *drain(2, ONE, TWO, THREE))
    (found,) = [found for found in find_in_run("log", ops, []) if found.name != "nonlinearizable-log"]
    assert (found.name, found.severity) == ("int-send-skip", "tolerated")


@pytest.mark.spark
def test_without_a_drain_it_is_unknown_whether_acknowledged_writes_are_there(judge_run: JudgeRun) -> None:
    begun = Op("invoke", "drain", 2, "log-0")
    ops = history(*send(0, 1, 0), *poll(2, ONE), *send(0, 2, 1), begun, begun.info("_TIMED_OUT"))
    results = judge_run(["log"], ops)
    assert [(found.name, found.severity) for found in results.findings] == [("not-drained", "unknown")]
    assert results.verdict is Verdict.UNKNOWN


@pytest.mark.spark
def test_repeated_values_are_unknown(judge_run: JudgeRun) -> None:
    results = judge_run(["log"], history(*send(0, 1, 0), *send(1, 1, 1), *drain(2, ONE, (1, 1))))
    assert [(found.name, found.witnesses) for found in results.findings] == [("values-not-unique", (0, 2))]
    assert results.verdict is Verdict.UNKNOWN


@pytest.mark.spark
def test_a_run_without_reads_is_unknown_unless_it_is_idle(judge_run: JudgeRun) -> None:
    ops = history(*lost_send(0, 1), *poll(2), *nemesis_op("cut"))
    assert [found.name for found in judge_run(["log"], ops).findings] == ["no-progress"]
    assert judge_run(["log"], ops, idle=True).verdict is Verdict.VALID


@pytest.mark.spark
def test_malformed_values_crash_the_check(judge_run: JudgeRun) -> None:
    start = Op("invoke", "poll", 2)
    results = judge_run(["log"], history(*send(0, 1, 0), start, start.ok({"log-0": [[0, "one"]]}), *drain(3, ONE)))
    assert [found.name for found in results.findings] == ["check-crashed"]


@pytest.mark.spark
def test_message_names_the_guarantee_and_both_witnesses(find_in_run: FindInRun) -> None:
    (found,) = find_in_run("log", history(*send(0, 1, 0), *send(0, 2, 1), *drain(2, ONE)), [])
    assert found.message == (
        "key log-0: acknowledged values are in the log: send of 2 was acknowledged at offset 1 (index 2 to 3), but "
        "no read returned it, the drain (index 4 to 5) included"
    )


@settings(max_examples=100)
@given(st.integers(0, 10**9))
def test_kernel_agrees_with_its_twin(seed: int) -> None:
    ops = random_case(seed)
    assert sorted(found_by_kernel(ops)) == sorted(log_twin.findings(ops))


@pytest.mark.spark
def test_check_agrees_with_its_twin_on_random_histories_in_which_every_finding_occurs(spark: SparkSession) -> None:
    cases = [random_case(seed, 10 * seed, f"log-{seed}") for seed in range(800)]
    expected = [found for ops in cases for found in log_twin.findings(ops)]
    # One table holds all cases: each has its own key, and its own processes and indexes.
    rows = [row(replace(op, index=1000 * seed + op.index)) for seed, ops in enumerate(cases) for op in ops]
    table = spark.createDataFrame(pa.Table.from_pylist(rows, HISTORY).to_pandas(), from_arrow_schema(HISTORY))
    table = table.withColumn("run", fn.lit(0))
    found = [
        (one["key"], one["name"], one["severity"], tuple(index % 1000 for index in one["witnesses"]))
        for one in log.findings(table, table.limit(0), JudgeSettings()).collect()
    ]
    assert sorted(found) == sorted(expected)
    names = Counter(name for _, name, _, _ in found)
    assert names.keys() == {*log.MESSAGES, group_offsets.REGRESSION, group_offsets.STALE}
    assert min(names.values()) >= 4, names
