"""Committed offsets: the scan agrees with the twin, and findings do not depend on how rows are cut."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.framework.contract import JudgeSettings
from checkers.kafka_log import client_log as log
from checkers.kafka_log import group_offsets
from checkers.twins import group_offsets as twin
from harness.model import Op
from tests.support.checks.small_histories import history
from tests.support.checks.small_logs import commit, committed, lost_commit, offsets_row
from tests.support.checks.ways_to_cut import WAYS, cut

SETTINGS = JudgeSettings(idle=True)
PARTITIONS, PROCESSES = 6, 8


def random_operations(seed: int, operations: int = 60) -> list[Op]:
    """Concurrent operations on two partitions each, whose offsets mostly rise and sometimes fall."""
    source, ops, open_ends = random.Random(seed), list[Op](), dict[int, Op]()
    for number in range(operations):
        process = source.randrange(PROCESSES)
        if process in open_ends:
            ops.append(open_ends.pop(process))
        offset = max(0, number + source.choice([0, 0, 0, 0, -1, -20]))
        kinds = (commit, commit, lost_commit, committed, lambda *given: committed(*given, at_last=True))
        begun, end = source.choice(kinds)(process, offset)
        names = source.sample([f"log-{partition}" for partition in range(PARTITIONS)], 2)
        if end.key is None:
            end = replace(end, value=dict.fromkeys(names, offset))
        ops.append(begun)
        open_ends[process] = end
    return history(*ops, *open_ends.values())


def test_scan_finds_what_comparing_all_pairs_finds() -> None:
    found = 0
    for seed in range(100):
        ops = random_operations(seed)
        expected = sorted(twin.findings(ops))
        rows: dict[str, list[dict]] = {}
        for one in twin.events_of(ops):
            rows.setdefault(one.key, []).append(offsets_row(one))
        by_scan = [
            (each["key"], each["name"], each["severity"], tuple(each["witnesses"]))
            for key, listed in rows.items()
            for each in group_offsets.judge(key, pa.Table.from_pylist(listed), "log").to_pylist()
        ]
        assert sorted(by_scan) == expected, f"seed {seed}"
        found += len(expected)
    assert found > 100


@pytest.mark.spark
@pytest.mark.parametrize(
    "ways", [[*WAYS][::3], pytest.param([*WAYS], marks=pytest.mark.slow)], ids=["two ways", "all ways"]
)
def test_findings_are_the_same_however_rows_are_cut(ways: list[str], spark: SparkSession, tmp_path: Path) -> None:
    ops, found = random_operations(7, 600), {}
    for name, table in cut(spark, ops, tmp_path, ways):
        one_run = table.withColumn(RUN, fn.lit(0))
        rows = log.findings(one_run, one_run.limit(0), SETTINGS).collect()
        found[name] = sorted((row["key"], row["name"], row["severity"], tuple(row["witnesses"])) for row in rows)
    assert len(found["one partition"]) > 50
    for name in ways:
        assert found[name] == sorted(twin.findings(ops)), name
