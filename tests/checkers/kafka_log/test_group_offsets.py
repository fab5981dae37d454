"""Committed offsets: the scan beside the twin on many operations at once, and findings however rows are cut."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from checkers.framework.contract import JudgeSettings
from checkers.kafka_log import client_log as log
from checkers.kafka_log import group_offsets
from checkers.twins import group_offsets as twin
from harness.model import Op
from tests.support.checks.small_histories import history
from tests.support.checks.small_logs import commit, committed, lost_commit
from tests.support.checks.ways_to_cut import WAYS, cut

SETTINGS = JudgeSettings(idle=True)
PARTITIONS, PROCESSES = 6, 8


def told(seed: int, operations: int = 60) -> list[Op]:
    """Operations of many processes at once, each of two partitions, that mostly go ahead and sometimes go back."""
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


def test_scan_finds_what_comparing_everything_with_everything_does() -> None:
    found = 0
    for seed in range(300):
        ops = told(seed)
        expected = sorted(twin.findings(ops))
        rows: dict[str, list[dict]] = {}
        for one in twin.told_of(ops):
            what = group_offsets.SEEN if one.is_stale_at_worst else group_offsets.COMMITTED_BY
            row = {"call": one.call, "index": one.end, "what": what, "offset": one.offset}
            rows.setdefault(one.key, []).append(row)
        by_scan = [
            (each["key"], each["name"], each["severity"], tuple(each["witnesses"]))
            for key, listed in rows.items()
            for each in group_offsets.judge(key, pa.Table.from_pylist(listed), "log").to_pylist()
        ]
        assert sorted(by_scan) == expected, f"seed {seed}"
        found += len(expected)
    assert found > 300


@pytest.mark.spark
def test_findings_are_the_same_however_rows_are_cut(spark: SparkSession, tmp_path: Path) -> None:
    ops, found = told(7, 600), {}
    for name, table in cut(spark, ops, tmp_path):
        rows = log.findings(table, table.limit(0), SETTINGS).collect()
        found[name] = sorted((row["key"], row["name"], row["severity"], tuple(row["witnesses"])) for row in rows)
    assert len(found["one partition"]) > 50
    for name in WAYS:
        assert found[name] == sorted(twin.findings(ops)), name
