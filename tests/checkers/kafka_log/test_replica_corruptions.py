"""Every kind of corruption of observations and logs, at random: Spark and the plain twins agree, on the expected name.

Each kind is planted in SPLITBRAIN_SEEDS records, two where that is not set, and all are judged as one.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession

from checkers.kafka_log import divergence
from checkers.twins import divergence as divergence_twin
from checkers.twins import quorum as quorum_twins
from harness.model.quorum_states import KIP_996_RULES
from tests.support.checks.on_spark import batch_table, committed_table, observation_table
from tests.support.checks.replica_corruptions import (
    FILE_CORRUPTIONS,
    LOG_CORRUPTIONS,
    QUORUM_CORRUPTIONS,
    Corruption,
    planted_in,
    valid_files,
    valid_logs,
    valid_quorum,
)
from tests.support.checks.run_types import JudgeRun
from tests.support.checks.small_histories import history, nemesis_op

pytestmark = pytest.mark.spark

SEEDS = int(os.environ.get("SPLITBRAIN_SEEDS", "2"))


def refuse_another_name(name: str, seed: int, kind: Corruption, before: list, after: list) -> None:
    """Require no finding before, and after it the planted one by its name."""
    assert before == [], f"{name}, seed {seed}: before"
    names = {found[0] for found in after}
    assert {kind.must} <= names <= {kind.must} | kind.may, f"{name}, seed {seed}: {names}"


def test_twins_and_spark_agree_on_corrupted_observations(judge_run: JudgeRun) -> None:
    runs = [(name, seed) for name in QUORUM_CORRUPTIONS for seed in range(SEEDS)]
    cases = [planted_in(valid_quorum, QUORUM_CORRUPTIONS, name, seed, 2 * at) for at, (name, seed) in enumerate(runs)]
    seen = [one for pair in cases for quorum in pair for one in quorum.seen]
    results = judge_run(["quorum"], history(*nemesis_op("heal")), seen, rules=KIP_996_RULES, findings_max=10**6)
    found = defaultdict(list)
    for one in results.findings:
        found[(one.node or 0) // 10].append((one.name, one.node, one.time_ns))
    for at, ((name, seed), pair) in enumerate(zip(runs, cases, strict=True)):
        for number, quorum in zip((2 * at, 2 * at + 1), pair, strict=True):
            assert sorted(found[number]) == sorted(quorum_twins.findings(quorum.seen, KIP_996_RULES)), (
                f"{name}, seed {seed}"
            )
        refuse_another_name(name, seed, QUORUM_CORRUPTIONS[name], found[2 * at], found[2 * at + 1])


def results_of(rules: Iterable[DataFrame]) -> Mapping[int, list[tuple[str, tuple[int, ...]]]]:
    """By partition, the findings of the rules: names, and the numbers in the messages."""
    found = defaultdict(list)
    for row in [row for rule in rules for row in rule.collect()]:
        numbers = tuple(int(number) for number in re.findall(r"\d+", row["message"]))
        found[int(row["key"].rpartition("-")[2])].append((row["name"], numbers))
    return found


def test_twins_and_spark_agree_on_corrupted_logs(spark: SparkSession) -> None:
    runs = [(name, seed) for name in LOG_CORRUPTIONS for seed in range(SEEDS)]
    cases = [planted_in(valid_logs, LOG_CORRUPTIONS, name, seed, 2 * at) for at, (name, seed) in enumerate(runs)]
    logs = [made for pair in cases for made in pair]
    batches = batch_table(spark, [one for batches, _ in logs for one in batches]).cache()
    committed = committed_table(spark, {number: mark for number, (_, mark) in enumerate(logs)})
    rules = [
        divergence.diverged_logs(batches, committed),
        divergence.committed_records_missing(batches, committed),
        divergence.leader_epoch_went_back(batches),
        divergence.corrupt_batches(batches),
    ]
    found = results_of(rules)
    batches.unpersist()
    for at, (name, seed) in enumerate(runs):
        for number, made in zip((2 * at, 2 * at + 1), cases[at], strict=True):
            assert sorted(found[number]) == sorted(divergence_twin.findings(*made, (1, 2, 3))), f"{name}, seed {seed}"
        refuse_another_name(name, seed, LOG_CORRUPTIONS[name], found[2 * at], found[2 * at + 1])


def test_twin_and_spark_agree_on_truncation_below_a_stored_high_watermark(spark: SparkSession) -> None:
    runs = [(name, seed) for name in FILE_CORRUPTIONS for seed in range(SEEDS)]
    cases = [planted_in(valid_files, FILE_CORRUPTIONS, name, seed, 2 * at) for at, (name, seed) in enumerate(runs)]
    kept = [made for pair in cases for made in pair]
    observations = observation_table(spark, [one for made in kept for one in made.seen])
    batches = batch_table(spark, [one for made in kept for one in made.batches])
    found = results_of([divergence.truncated_below_high_watermark(batches, observations)])
    for at, (name, seed) in enumerate(runs):
        for number, made in zip((2 * at, 2 * at + 1), cases[at], strict=True):
            expected = divergence_twin.truncated_below_high_watermark(made.batches, made.seen)
            assert sorted(found[number]) == sorted(expected), f"{name}, seed {seed}"
        refuse_another_name(name, seed, FILE_CORRUPTIONS[name], found[2 * at], found[2 * at + 1])
