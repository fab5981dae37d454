"""The ways in which KIP-279's truncation ends, as literal logs; and random logs compared with the plain twin.

A log is written as its batches in order, `1:0-10 2:11-15` for offsets 0 to 10 of epoch 1 and 11 to 15 of epoch 2; `!`
marks a batch with damaged bytes. The cases are the KIP's own: nodes 1 and 2 are its brokers A and B.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from checkers.kafka_log import divergence, replication
from checkers.run_checks import collected
from checkers.twins import replication as twin
from harness.model import Finding, Observation
from harness.model.records.logged_batch import LoggedBatch
from tests.support.checks import settings_with
from tests.support.checks.on_spark import batch_table, observation_table
from tests.support.checks.run_types import JudgeRun
from tests.support.checks.small_histories import history, nemesis_op

pytestmark = pytest.mark.spark

TOPIC = "t"
ALL = 1_000_000


@dataclass(frozen=True)
class Case:
    """The logs of nodes 1, 2, …; the last failed fetches, node and offset; what was compacted, node and offset; and the
    findings with words of their messages, and whether the logs are equal."""

    logs: tuple[str, ...]
    found: Mapping[str, str]
    failed: tuple[tuple[int, int], ...] = ()
    cleaned: Mapping[int, int] | None = None
    equal: bool = False

    def batches(self, partition: int) -> list[LoggedBatch]:
        return [
            replace(batch(node, word, partition), cleaned_to=(self.cleaned or {}).get(node))
            for node, text in enumerate(self.logs, 1)
            for word in text.split()
        ]

    def seen(self, partition: int) -> list[Observation]:
        return [failed_fetch(node, offset, at, partition) for at, (node, offset) in enumerate(self.failed)]


def batch(node: int, word: str, partition: int = 0) -> LoggedBatch:
    epoch, _, offsets = word.rstrip("!").partition(":")
    base, _, last = offsets.partition("-")
    crc = 1000 * int(epoch) + int(base)
    return LoggedBatch(node, TOPIC, partition, int(base), int(last or base), int(epoch), crc, intact="!" not in word)


def failed_fetch(node: int, offset: int, time_ns: int, partition: int) -> Observation:
    detail = json.dumps({"topic": TOPIC, "partition": partition, "offset": offset})
    return Observation(time_ns, node, "log", "fetch-failed", detail=detail)


A = "1:0-10 1:11-20 3:21-30"
CASES = {
    "scenario 1, truncated to the common prefix": Case((A, A), {}, equal=True),
    "scenario 1, n < 20": Case(
        (A, "1:0-10 2:11-15"),
        {
            "replication-stuck": "the log of node 2 ends at 16, inside node 1's batch of offsets 11 to 20 (epoch 1), "
            "and its fetcher failed there"
        },
        failed=((2, 16),),
    ),
    "scenario 1, n = 20": Case(
        (A, "1:0-10 2:11-20 3:21-30"),
        {
            "diverged-logs": "at offset 11 node 1 has epoch 1 up to offset 20 (crc 1011), "
            "node 2 epoch 2 up to offset 20 (crc 2011)"
        },
    ),
    "scenario 1, n > 20": Case(
        (A, "1:0-10 3:21-30"),
        {
            "log-hole": "node 2 lacks offsets 11 to 20, before epoch 3",
            "diverged-logs": "at offset 11 node 1 has epoch 1 up to offset 20 (crc 1011), node 2 no batch",
        },
    ),
    "scenario 2, KIP-101": Case(
        ("1:0 5:1", "3:0 5:1"),
        {"diverged-logs": "at offset 0 node 1 has epoch 1 up to offset 0 (crc 1000), node 2 epoch 3 up to offset 0"},
    ),
    "a follower that lags": Case((A, "1:0-10"), {}),
    "a follower that was killed before it truncated": Case((A, "1:0-10 2:11-15"), {}),
    "a failed fetch, and the log was truncated since": Case((A, "1:0-10"), {}, failed=((2, 16),)),
    "a failed fetch, and a later one at another offset": Case((A, "1:0-10 2:11-15"), {}, failed=((2, 16), (2, 11))),
    "a failed fetch at a batch's beginning": Case((A, "1:0-10"), {}, failed=((2, 11),)),
    "a failed fetch of a node without a log": Case((A,), {}, failed=((2, 16),)),
    "two replicas are stuck": Case(
        (A, "1:0-10 2:11-15", "1:0-10 2:11-15"),
        {"replication-stuck": "inside node 1's batch of offsets 11 to 20"},
        failed=((2, 16), (3, 16)),
    ),
    "a log begins behind its retention": Case((A, "1:11-20 3:21-30"), {}, equal=True),
    "a compacted log, copied with its holes": Case(
        ("1:0-10 3:21-30", "1:0-10 3:21-30"), {}, cleaned={1: 21}, equal=True
    ),
    "compacted on one node only": Case((A, "1:5-10 3:21-30"), {}, cleaned={2: 21}, equal=True),
    "a hole behind what was compacted": Case(
        (A, "1:0-10 3:21-30"), {"log-hole": "node 2 lacks offsets 11 to 20", "diverged-logs": "at offset 11"},
        cleaned={1: 11},
    ),
    "a damaged batch in place of offsets": Case(
        ("1:0-10 1:11-20! 3:21-30", "1:0-10 1:11-20 3:21-30"), {"corrupt-batch": "node 1's at offsets 11 to 20"}
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Finding]]:
    """The findings about each case, from one Spark job: each has a partition of its own."""
    numbered = list(enumerate(CASES.values()))
    batches = batch_table(spark, [one for number, case in numbered for one in case.batches(number)]).localCheckpoint()
    seen = observation_table(spark, [one for number, case in numbered for one in case.seen(number)])
    no_marks = spark.createDataFrame(
        [], "run int, topic string, partition int, high_watermark bigint, voters array<int>"
    )
    rules = [
        replication.log_holes(batches, "divergence"),
        replication.replication_stuck(batches, seen, "divergence"),
        divergence.diverged_logs(batches, no_marks),
        divergence.corrupt_batches(batches),
    ]
    results: dict[str, list[Finding]] = {name: [] for name in CASES}
    for finding in collected(reduce(DataFrame.unionAll, rules), ALL):
        results[list(CASES)[int((finding.key or "").rpartition("-")[2])]].append(finding)
    return results


@pytest.mark.parametrize("name", CASES)
def test_replication_ends(name: str, found: dict[str, list[Finding]]) -> None:
    expected = CASES[name].found
    assert {finding.name for finding in found[name]} == set(expected)
    assert [finding for finding in found[name] if expected[finding.name] not in finding.message] == []
    assert {finding.severity for finding in found[name]} <= {"invalid"}


@pytest.mark.parametrize("name", CASES)
def test_twin_agrees_on(name: str, found: dict[str, list[Finding]]) -> None:
    case, names = CASES[name], ("log-hole", "replication-stuck")
    by_rule = [(one.name, numbers(one.message)) for one in found[name] if one.name in names]
    assert sorted(by_rule) == sorted(twin_findings(case.batches(0), case.seen(0)))
    assert twin.has_equal_logs(case.batches(0)) is case.equal or len(case.logs) == 1


def twin_findings(batches: Sequence[LoggedBatch], seen: Sequence[Observation]) -> list[tuple[str, tuple[int, ...]]]:
    return [*twin.log_holes(batches), *twin.replication_stuck(batches, seen)]


def numbers(message: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", message))


def random_case(source: random.Random, partition: int) -> tuple[list[LoggedBatch], list[Observation]]:
    """Three nearly equal logs, some compacted, and failed fetches at or near their ends."""
    truth, offset, epoch = [], source.choice([0, 0, 4]), 1
    for _ in range(source.randint(1, 6)):
        epoch, last = epoch + source.choice([0, 0, 1]), offset + source.choice([0, 2, 4])
        truth.append(LoggedBatch(0, TOPIC, partition, offset, last, epoch, 100 * epoch + offset))
        offset = last + 1
    batches: list[LoggedBatch] = []
    seen: list[Observation] = []
    noise = source.choice([0, 0, 0.1, 0.3])
    for node in (1, 2, 3):
        log = [one for one in truth[: len(truth) - source.choice([0, 0, 1, 2])] if source.random() >= noise / 2]
        log = [replace(one, intact=False) if source.random() < noise / 4 else one for one in log]
        if log and source.random() < noise + 0.1:
            log[-1] = replace(log[-1], last_offset=log[-1].base_offset, leader_epoch=epoch + 1, crc=7)
        cleaned = source.choice([None, None, None, source.randint(0, offset)])
        batches += [replace(one, node=node, cleaned_to=cleaned) for one in log]
        for time_ns in range(source.choice([0, 1, 2])):
            end = log[-1].last_offset + 1 if log else 0
            seen.append(failed_fetch(node, max(0, end + source.choice([0, 0, 0, 1, -1])), time_ns, partition))
    return batches, seen


def test_rules_agree_with_their_twins_on_random_logs(spark: SparkSession) -> None:
    source = random.Random(11)
    cases = [random_case(source, partition) for partition in range(500)]
    batches = batch_table(spark, [one for batches, _ in cases for one in batches]).cache()
    seen = observation_table(spark, [one for _, file in cases for one in file])
    rules = [replication.log_holes(batches, "d"), replication.replication_stuck(batches, seen, "d")]
    found = [(row["key"], row["name"], numbers(row["message"])) for rule in rules for row in rule.collect()]
    rows = replication.quantities(batches, seen, settings_with(idle=True), "d").collect()
    batches.unpersist()
    expected = [(f"{TOPIC}-{partition}", *one) for partition, case in enumerate(cases) for one in twin_findings(*case)]
    assert sorted(found) == sorted(expected)
    assert min(Counter(name for _, name, _ in found).values()) >= 20
    several = [one for one, _ in cases if len({batch.node for batch in one}) > 1]
    measured = {row["name"]: row["value"] for row in rows}
    equal = sum(map(twin.has_equal_logs, several))
    end = max(batch.last_offset + 1 for one, _ in cases for batch in one)
    assert measured == {"partitions_compared": len(several), "partitions_with_equal_logs": equal, "log_end_max": end}
    assert 20 < equal < len(several) - 20


def test_check_names_both_and_counts_equal_partitions(judge_run: JudgeRun) -> None:
    logs = [*CASES["scenario 1, n < 20"].batches(0), *CASES["scenario 1, truncated to the common prefix"].batches(1)]
    results = judge_run(["divergence"], history(*nemesis_op("heal")), [failed_fetch(2, 16, 5, 0)], logs)
    assert [(one.name, one.key, one.node, one.time_ns) for one in results.findings] == [
        ("replication-stuck", "t-0", 2, 5)
    ]
    measured = {each.name: each.value for each in results.quantities}
    assert measured == {"partitions_compared": 2, "partitions_with_equal_logs": 1, "log_end_max": 31}


def truncation(node: int, time_ns: int, is_last: bool, partition: str = "t-0", by: str = "leader epoch") -> Observation:
    state = f"TruncationState(offset=1, completed={str(is_last).lower()})"
    detail = f"Truncating partition {partition} with {state} due to {by} and offset EpochEndOffset(…)"
    return Observation(time_ns, node, "log", "note", detail=detail)


TRUNCATIONS = {
    # case: the lines, and the most answers
    "no truncation": ([], 0),
    "by the high watermark": ([truncation(1, 1, True, by="local high watermark 0")], 0),
    "one answer": ([truncation(1, 1, True), truncation(1, 2, True), truncation(2, 3, True)], 1),
    "three answers": ([truncation(1, at, is_last=at == 3) for at in (1, 2, 3)], 3),
    "of two nodes": ([truncation(1, 1, False), truncation(2, 2, False), truncation(1, 3, True)], 2),
    "of two partitions": ([truncation(1, 1, False), truncation(1, 2, False, "t-1"), truncation(1, 3, True)], 2),
    "one after the other": ([truncation(1, at, is_last=at % 2 == 0) for at in range(1, 7)], 2),
    "without an end": ([truncation(1, 1, True), *(truncation(1, at, False) for at in (2, 3, 4))], 3),
}


@pytest.fixture(scope="module")
def rounds(spark: SparkSession) -> dict[str, int]:
    """The most answers of each case, from one Spark job."""
    frames = [
        replication.truncation_rounds(observation_table(spark, seen), "d").withColumn("name", fn.lit(name))
        for name, (seen, _) in TRUNCATIONS.items()
    ]
    return {row["name"]: int(row["value"]) for row in reduce(DataFrame.unionAll, frames).collect()}


@pytest.mark.parametrize("name", TRUNCATIONS)
def test_truncation_took_as_many_answers(name: str, rounds: dict[str, int]) -> None:
    seen, most = TRUNCATIONS[name]
    assert rounds.get(name, 0) == most
    assert twin.truncation_rounds_max(seen) == most


def led(leader: int | None, epoch: int, seconds: int, node: int = 1) -> Observation:
    detail = json.dumps({"topic": TOPIC, "partition": 0, "leader": leader, "epoch": epoch, "in_sync": [1]})
    return Observation(seconds * 10**9, node, "metadata", "partition", detail=detail)


OFFLINE = {
    # case: what brokers reported, and how many seconds the partition had no leader
    "never": ([led(1, 0, 1), led(2, 1, 5), led(2, 1, 9)], 0),
    "until it was elected": ([led(1, 0, 1), led(None, 1, 3), led(None, 1, 4, node=2), led(2, 2, 8), led(2, 2, 9)], 5),
    "twice": ([led(None, 1, 3), led(2, 2, 5), led(None, 3, 6), led(1, 4, 7)], 3),
    "until the end": ([led(1, 0, 1), led(None, 1, 3), failed_fetch(1, 0, 7 * 10**9, 0)], 4),
    "not, though one broker does not know the leader": ([led(None, 1, 3), led(1, 1, 4, node=2), led(2, 2, 9)], 0),
}


@pytest.fixture(scope="module")
def offline(spark: SparkSession) -> dict[str, float]:
    """The milliseconds of each case, from one Spark job."""
    frames = [
        replication.partition_offline(observation_table(spark, seen), "d").withColumn("name", fn.lit(name))
        for name, (seen, _) in OFFLINE.items()
    ]
    return {row["name"]: row["value"] for row in reduce(DataFrame.unionAll, frames).collect()}


@pytest.mark.parametrize("name", OFFLINE)
def test_partition_was_offline(name: str, offline: dict[str, float]) -> None:
    seen, seconds = OFFLINE[name]
    assert offline[name] == seconds * 1000 == twin.partition_offline_ms(seen)
