"""Literal logs, each violated rule planted once, and random logs compared with the plain twin.

A log is written as its batches in order, `1:0 1:1-2 2:3` for offset 0 and offsets 1 to 2 of epoch 1, then offset 3 of
epoch 2. Batches of one offset and epoch have one checksum, but for those marked `~`, which another leader might have
written, and `!`, whose bytes are not what was written.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from checkers.kafka_log import divergence
from checkers.twins import divergence as twin
from harness.model import Finding, Observation, Verdict
from harness.model.records.finding import verdict_of
from harness.model.records.logged_batch import LoggedBatch
from tests.support.checks import settings_with
from tests.support.checks.on_spark import batch_table, committed_table, observation_table
from tests.support.checks.run_types import FindInRuns, JudgeRun, OpenRuns, Tables
from tests.support.checks.small_histories import history, nemesis_op

pytestmark = pytest.mark.spark

TOPIC = "__cluster_metadata"
HEAL = history(*nemesis_op("heal"))


def log(node: int, text: str) -> list[LoggedBatch]:
    return [batch(node, word) for word in text.split()]


def batch(node: int, word: str) -> LoggedBatch:
    epoch, offsets = word.rstrip("~!").split(":")
    base, _, last = offsets.partition("-")
    crc = 1000 * int(epoch) + int(base) + (500 if "~" in word else 0)
    return LoggedBatch(node, TOPIC, 0, int(base), int(last or base), int(epoch), crc, intact="!" not in word)


def logs(*texts: str) -> list[LoggedBatch]:
    """The logs of nodes 1, 2, …"""
    return [one for node, text in enumerate(texts, 1) for one in log(node, text)]


def claimed(high_watermark: int, voters: int = 3) -> list[Observation]:
    """The voters were started, and the first of them claimed a high watermark."""
    started = [Observation(0, node, "process", "started") for node in range(1, voters + 1)]
    return [*started, Observation(1, 1, "describe-quorum", "claim", epoch=1, high_watermark=high_watermark)]


def on_file(
    node: int, high_watermark: int, epoch: int, time_ns: int = 2, partition: int = 0, start: int | None = None
) -> Observation:
    """A broker had stored a high watermark; the last offset below it has this epoch, which began at start."""
    of_epoch = {"epoch": epoch} if start is None else {"epoch": epoch, "start": start}
    detail = json.dumps({"topic": TOPIC, "partition": partition, **of_epoch})
    return Observation(
        time_ns, node, "replication-offset-checkpoint", "committed", high_watermark=high_watermark, detail=detail
    )


LEGAL = {
    "all logs are equal": (logs("1:0 1:1-2 2:3", "1:0 1:1-2 2:3", "1:0 1:1-2 2:3"), 4),
    "a follower lags": (logs("1:0 1:1-2 2:3", "1:0 1:1-2 2:3", "1:0"), 4),
    "what is not committed is on one node": (logs("1:0 1:1 1:2", "1:0", "1:0 1:1"), 2),
    "uncommitted tails differ": (logs("1:0 2:1", "1:0 3:1", "1:0"), 1),
    "a deposed leader's end was cut": (logs("1:0 2:1 2:2", "1:0 2:1 2:2", "1:0 2:1 2:2"), 3),
    "a log starts behind a snapshot": (logs("1:0 1:1-2 2:3", "2:3", "1:0 1:1-2 2:3"), 4),
    "most logs start behind a snapshot": (logs("1:0 1:1-2 2:3", "2:3 2:4", "2:4"), 5),
    "a voter has no log": (logs("1:0 1:1", "1:0 1:1"), 2),
    "nothing was committed": (logs("1:0", "2:0", "3:0"), 0),
}

BROKEN = {
    "a follower keeps its end and appends behind it": (
        logs("1:0 2:1 2:2", "1:0 2:1 2:2", "1:0 1:1 2:2"), 3,
        [("diverged-logs", None, "nodes 1 and 3 agree at offset 2, but at offset 1 node 1 has epoch 2 up to offset 1 "
          "(crc 2001), node 3 epoch 1 up to offset 1 (crc 1001)"),
         ("diverged-logs", None, "nodes 2 and 3 agree at offset 2")],
    ),
    "one offset and epoch has two contents": (
        logs("1:0 1:1", "1:0 1:1", "1:0 1:1~"), 2,
        [("diverged-logs", None, "nodes 1 and 3 agree at offset 1, but at offset 1"),
         ("diverged-logs", None, "nodes 2 and 3 agree at offset 1, but at offset 1")],
    ),
    "a log has a hole": (
        logs("1:0 1:1 1:2", "1:0 1:2", "1:0 1:1 1:2"), 3,
        [("diverged-logs", None, "but at offset 1 node 1 has epoch 1 up to offset 1 (crc 1001), node 2 no batch"),
         ("diverged-logs", None, "nodes 2 and 3 agree at offset 2"),
         ("log-hole", 2, "node 2 lacks offsets 1 to 1, before epoch 1")],
    ),
    "a majority lost what was committed": (
        logs("1:0 1:1 1:2", "1:0", "1:0 1:1"), 3,
        [("committed-record-missing", None, "the high watermark was 3, and of 3 voters fewer than 2 hold offsets 2")],
    ),
    "what was committed is in three versions": (
        logs("1:0 2:1-2", "1:0 3:1", "1:0 4:1-2"), 2,
        [("committed-record-missing", None, "offsets 1 to 1 in one version"), *3 * [("diverging-tail", None, "")]],
    ),
    "no log reaches the claimed high watermark": (
        logs("1:0", "1:0", "1:0"), 7, [("committed-record-missing", None, "offsets 1 to 6")],
    ),
    "a batch is sound in one log only": (
        logs("1:0 1:1", "1:0! 1:1", "1:0! 1:1"), 2,
        [("committed-record-missing", None, "offsets 0 to 0"),
         ("corrupt-batch", 2, "node 2's at offsets 0 to 0, of epoch 1, does not (crc 1000)"),
         ("corrupt-batch", 3, "node 3's at offsets 0 to 0")],
    ),
    "an epoch goes back along a log": (
        logs("2:0 1:1", "2:0 1:1", "2:0"), 1,
        [("leader-epoch-went-back", 1, "at offset 1 node 1 has epoch 1 behind epoch 2"),
         ("leader-epoch-went-back", 2, "at offset 1 node 2 has epoch 1 behind epoch 2")],
    ),
}  # fmt: skip


TAIL, NO_LOGS = "a tail yet to be truncated", "no logs"


@pytest.fixture(scope="module")
def found(find_in_runs: FindInRuns) -> dict[str, list[Finding]]:
    """The findings about each case, from one Spark job."""
    runs = {name: Tables(HEAL, claimed(mark), batches) for name, (batches, mark) in LEGAL.items()}
    runs |= {name: Tables(HEAL, claimed(mark), batches) for name, (batches, mark, _) in BROKEN.items()}
    runs |= {name: Tables(HEAL, seen, batches) for name, (batches, seen) in KEPT.items()}
    runs |= {name: Tables(HEAL, seen, batches) for name, (batches, seen, _) in CUT.items()}
    runs[TAIL] = Tables(HEAL, claimed(3), logs("1:0 2:1 2:2", "1:0 2:1 2:2", "1:0 1:1"))
    return find_in_runs("divergence", runs | {NO_LOGS: Tables(HEAL, [on_file(1, 5, 1)])})


@pytest.mark.parametrize("name", LEGAL)
def test_logs_are_correct_when(name: str, found: dict[str, list[Finding]]) -> None:
    assert found[name] == []


@pytest.mark.parametrize("name", BROKEN)
def test_logs_are_broken_when(name: str, found: dict[str, list[Finding]]) -> None:
    findings, expected = found[name], BROKEN[name][2]
    assert [(broken.name, broken.node) for broken in findings] == [(name, node) for name, node, _ in expected]
    assert [
        words for broken, (_, _, words) in zip(findings, expected, strict=True) if words not in broken.message
    ] == []
    assert verdict_of(findings) is Verdict.INVALID


KEPT = {
    "all hold what was on file": (logs("1:0 1:1-2 2:3", "1:0 1:1-2 2:3", "1:0"), [on_file(1, 3, 1), on_file(1, 4, 2)]),
    "a new leader's lags behind, and nothing was cut": (
        logs("1:0 1:1 2:2", "1:0 1:1 2:2"), [on_file(1, 2, 1), on_file(2, 1, 1, 3), on_file(2, 3, 2, 4)],
    ),
    "an end of an earlier leader was not cut yet": (logs("2:0 3:1", "2:0 1:1 1:2"), [on_file(1, 2, 3)]),
    "all but one lost their disks": (logs("1:0 1:1", "1:0"), [on_file(1, 2, 1), on_file(2, 2, 1), on_file(3, 2, 1)]),
    "retention deleted it": (logs("2:5 2:6", "2:5"), [on_file(1, 3, 1)]),
    "no log of its partition was kept": (logs("1:0"), [on_file(2, 7, 1, partition=5)]),
}  # fmt: skip

CUT = {
    "another leader's record is there": (
        logs("1:0 3:1 3:2", "1:0 3:1 3:2", "1:0"), [on_file(1, 1, 1, 2), on_file(1, 2, 2, 3), on_file(1, 3, 2, 4)],
        (1, 4, "node 1 had stored 3, in epoch 2, and now offset 2 is of epoch 3"),
    ),
    "who had it still has it, and another leader does not": (
        logs("1:0 2:1 2:2", "1:0 3:1 3:2"), [on_file(1, 2, 2)],
        (1, 2, "node 1 had stored 2, in epoch 2, and now offset 1 is of epoch 3"),
    ),
    "all logs end before it": (
        logs("1:0 1:1", "1:0"), [on_file(2, 5, 1, 9), on_file(3, 5, 1, 7), on_file(3, 1, 1, 1)],
        (3, 7, "node 3 had stored 5, in epoch 1, and now no log has offset 4, the longest ends at 2"),
    ),
    "only a deposed leader of an earlier epoch has it": (
        logs("1:0 2:1", "1:0"), [on_file(3, 2, 3)],
        (3, 2, "node 3 had stored 2, in epoch 3, and now offset 1 is of epoch 2"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_a_stored_high_watermark_is_respected_when(name: str, found: dict[str, list[Finding]]) -> None:
    assert "truncated-below-high-watermark" not in {broken.name for broken in found[name]}


@pytest.mark.parametrize("name", CUT)
def test_a_log_was_truncated_below_its_high_watermark_when(name: str, found: dict[str, list[Finding]]) -> None:
    [cut] = [one for one in found[name] if one.name == "truncated-below-high-watermark"]
    node, time_ns, words = CUT[name][2]
    assert (cut.node, cut.time_ns, cut.severity) == (node, time_ns, "invalid")
    assert cut.message == f"records below a high watermark stay in the log: {words}"


def test_a_tail_yet_to_be_truncated_is_tolerated(found: dict[str, list[Finding]]) -> None:
    findings = found[TAIL]
    assert [broken.name for broken in findings] == ["diverging-tail", "diverging-tail"]
    assert "at offset 1 node 1 has epoch 2 up to offset 1 (crc 2001), node 3 epoch 1" in findings[0].message
    assert verdict_of(findings) is Verdict.VALID


def test_a_stored_high_watermark_is_not_checked_without_logs(found: dict[str, list[Finding]]) -> None:
    assert [one.name for one in found[NO_LOGS]] == ["no-batches"]


def test_a_run_without_batches_is_unknown_to_this_check_only(judge_run: JudgeRun) -> None:
    results = judge_run(["divergence", "nemesis"], HEAL, claimed(3))
    assert [(found.check, found.name, found.severity) for found in results.findings] == [
        ("divergence", "no-batches", "unknown")
    ]
    assert judge_run(["nemesis"], HEAL, claimed(3)).verdict is Verdict.VALID


LOST = {
    # case: the logs, the stored high watermarks, and how many offsets below them the latest log lacks
    "nothing": (logs("1:0-9", "1:0-9"), [on_file(1, 10, 1)], 0),
    "a shorter replica leads": (logs("1:0-49 3:50", "1:0-49 3:50"), [on_file(3, 100, 1), on_file(1, 51, 3)], 50),
    "an empty replica leads": (logs("3:0", "3:0"), [on_file(3, 100, 1), on_file(3, 90, 1)], 100),
    "a longer log of an earlier epoch": (logs("1:0-49 3:50", "1:0-99"), [on_file(2, 100, 1)], 50),
    "retention deleted it": (logs("1:7-9"), [on_file(1, 5, 1)], 0),
    "all that was of a later epoch": (
        logs("1:0-39", "1:0-39"),
        [on_file(1, 25, 1, start=0), on_file(2, 30, 2, 3, start=25), on_file(2, 40, 2, start=25)],
        15,
    ),
    "the end of two epochs": (
        logs("1:0-9 3:10-11", "1:0-9"), [on_file(1, 12, 1, start=0), on_file(2, 20, 2, start=12)], 10,
    ),
    "what retention deleted is not": (logs("1:7-9 3:10"), [on_file(1, 5, 1, start=0), on_file(2, 12, 2, start=5)], 5),
}  # fmt: skip


@pytest.fixture(scope="module")
def offsets_lost(open_runs: OpenRuns) -> dict[str, float]:
    """The quantity committed_offsets_lost of each case, from one Spark job."""
    tables = open_runs([Tables(HEAL, stored, batches) for batches, stored, _ in LOST.values()])
    settings = settings_with(runs=tuple(range(len(LOST))))
    rows = divergence.quantities(tables["batches"], tables["observations"], settings)
    lost = rows.where("name = 'committed_offsets_lost'").collect()
    return {list(LOST)[row["run"]]: row["value"] for row in lost}


@pytest.mark.parametrize("name", LOST)
def test_committed_offsets_are_lost_that_the_latest_log_lacks(name: str, offsets_lost: dict[str, float]) -> None:
    batches, stored, lost = LOST[name]
    assert offsets_lost[name] == lost == twin.committed_offsets_lost(batches, stored)


def random_logs(source: random.Random, partition: int) -> tuple[list[LoggedBatch], int]:
    """Three nearly equal logs, and a high watermark."""
    truth, offset, epoch = [], 0, 1
    for _ in range(source.randint(1, 6)):
        epoch, last = epoch + source.choice([0, 0, 1]), offset + source.choice([0, 0, 2])
        truth.append(LoggedBatch(0, TOPIC, partition, offset, last, epoch, 100 * epoch + offset))
        offset = last + 1
    noise = source.choice([0, 0.1, 0.3])
    batches = [
        replace(disturbed(source, one) if source.random() < noise else one, node=node)
        for node in (1, 2, 3)
        for one in truth[source.choice([0, 0, 0, 1, 2]) : len(truth) - source.choice([0, 0, 1, 2])]
        if source.random() >= noise / 4
    ]
    return batches, source.randint(0, offset + 1)


def disturbed(source: random.Random, one: LoggedBatch) -> LoggedBatch:
    changes = [
        {"crc": one.crc + 7},
        {"leader_epoch": one.leader_epoch + 1, "crc": one.crc + 100},
        {"leader_epoch": one.leader_epoch - 1, "crc": one.crc + 50},
        {"last_offset": one.base_offset},
        {"intact": False},
    ]
    return replace(one, **source.choice(changes))


def random_marks(source: random.Random, partition: int, batches: list[LoggedBatch]) -> list[Observation]:
    """High watermarks that brokers had stored: most fit some log, some fit none."""
    marks = []
    for time_ns in range(source.randint(0, 4)):
        known = source.choice(batches) if batches else LoggedBatch(0, TOPIC, partition, 0, 0, 1, 0)
        epoch = max(0, known.leader_epoch + source.choice([0, 0, 0, 0, 1, -1]))
        mark = max(1, source.randint(known.base_offset, known.last_offset) + source.choice([1, 1, 1, 1, 3]))
        start = source.choice([None, max(0, min(known.base_offset, mark - 1) - source.choice([0, 0, 1]))])
        marks.append(on_file(source.randint(1, 3), mark, epoch, time_ns, partition, start))
    return marks


def numbers(message: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", message))


def test_rules_agree_with_their_twins_on_random_logs(spark: SparkSession) -> None:
    source = random.Random(7)
    cases = [random_logs(source, partition) for partition in range(600)]
    batches = batch_table(spark, [one for batches, _ in cases for one in batches]).cache()
    files = [random_marks(source, partition, one) for partition, (one, _) in enumerate(cases)]
    observations = observation_table(spark, [one for file in files for one in file])
    committed = committed_table(spark, {partition: mark for partition, (_, mark) in enumerate(cases) if mark})
    rules = [
        divergence.diverged_logs(batches, committed),
        divergence.committed_records_missing(batches, committed),
        divergence.leader_epoch_went_back(batches),
        divergence.corrupt_batches(batches),
        divergence.truncated_below_high_watermark(batches, observations),
    ]
    found = [(row["key"], row["name"], numbers(row["message"])) for rule in rules for row in rule.collect()]
    [lost] = divergence.committed_offsets_lost(batches, observations).collect()
    batches.unpersist()
    losses = [twin.committed_offsets_lost(one, file) for (one, _), file in zip(cases, files, strict=True)]
    assert lost["value"] == sum(losses) > 100
    expected = [
        (f"{TOPIC}-{partition}", name, numbers_found)
        for partition, ((one, mark), file) in enumerate(zip(cases, files, strict=True))
        for name, numbers_found in [
            *twin.findings(one, mark, (1, 2, 3)),
            *twin.truncated_below_high_watermark(one, file),
        ]
    ]
    assert sorted(found) == sorted(expected)
    names = Counter(name for _, name, _ in found)
    assert len(names) == 6
    assert min(names.values()) >= 30
