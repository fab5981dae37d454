"""Zombies in the brokers' own logs: literal and planted ones, and the findings of both checks with their senders."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.kafka_log import zombies
from checkers.twins import zombies as twin
from harness.model.records.logged_record import LoggedRecord
from harness.model.records.tables import RECORDS
from tests.support.checks import record_corruptions
from tests.support.checks.run_types import FindInRun
from tests.support.checks.small_histories import history
from tests.support.checks.small_logs import drain, lost_send, send
from tests.support.checks.small_transactions import drain as drained
from tests.support.checks.small_transactions import one_by_one, txn
from tests.support.checks.small_transactions import send as sent

pytestmark = pytest.mark.spark

SEEDS = 25


def found(spark: SparkSession, records: Sequence[LoggedRecord]) -> set[tuple[str, int, str]]:
    """(key, offset, value) of each record that the check finds."""
    rows = pa.Table.from_pylist([asdict(record) for record in records], RECORDS).to_pylist()
    table = spark.createDataFrame([tuple(row.values()) for row in rows], from_arrow_schema(RECORDS)).withColumn(
        "run", fn.lit(0)
    )
    results = zombies.behind_newer(table).select("key", "offset", "value").collect()
    assert len(results) == len(set(results)), "one finding a record, however many replicas have it"
    return {(row["key"], row["offset"], row["value"]) for row in results}


@pytest.mark.parametrize("name", record_corruptions.CORRUPTIONS)
def test_spark_and_twin_agree_on_records_after_a_newer_epoch(spark: SparkSession, name: str) -> None:
    cases = [record_corruptions.planted(name, seed) for seed in range(SEEDS)]
    before, after = ([each for case in cases for each in case[which]] for which in (0, 1))
    assert found(spark, before) == twin.behind_newer(before) == set()
    results = found(spark, after)
    assert results == twin.behind_newer(after)
    assert {key for key, _, value in results if value == "late"} == {f"{name}/{seed}-0" for seed in range(SEEDS)}


def test_spark_and_twin_agree_on_random_records(spark: SparkSession) -> None:
    source = random.Random(5)
    records = [
        LoggedRecord(node, f"t{number}", 0, offset, source.randint(9, 11), source.randint(0, 3), *end)
        for number in range(60)
        for node in (1, 2)
        for offset in range(source.randint(0, 6))
        for end in [source.choice([("commit", None), (None, "1"), (None, "2"), (None, None)])]
    ]
    assert found(spark, records) == twin.behind_newer(records)
    assert 20 < len(found(spark, records)) < len(records) / 2


LOG = [
    LoggedRecord(1, "log", 0, 0, 9, 0, None, "1"),
    LoggedRecord(1, "log", 0, 1, 9, 2, "abort", None),
    LoggedRecord(1, "log", 0, 2, 9, 0, None, "2"),
]
WORDS = (
    "a fenced producer writes nothing: on node 1 log-0=2 at offset 2 is by producer 9 of epoch 0, after its epoch 2 at "
    "offset 1"
)


def test_the_log_check_reports_a_zombie_with_its_send(find_in_run: FindInRun) -> None:
    ops = history(*send(0, 1, 0), *lost_send(0, 2), *drain(3, (0, 1)))
    results = [each for each in find_in_run("log", ops, (), records=LOG) if each.name != "settled"]
    assert [(each.name, each.message, each.node, each.witnesses) for each in results] == [
        ("zombie-write", WORDS, 1, (2, 3))
    ]


def test_the_transactions_check_reports_a_zombie_with_its_transaction(find_in_run: FindInRun) -> None:
    ops = one_by_one(
        txn(0, ["send", "log-0", 1], end="fail"),
        txn(0, ["send", "log-0", 2], end="fail"),
        txn(1, sent("log-1", 0, 7)),
        drained("log-1", [0, 7]),
    )
    end = LoggedRecord(1, "log", 0, 3, 9, 0, "abort", None)
    other = [LoggedRecord(1, "log", 1, 0, 8, 0, None, "7"), LoggedRecord(1, "log", 1, 1, 8, 0, "commit", None)]
    results = find_in_run("transactions", ops, (), records=[*LOG, end, *other])
    assert [(each.name, each.message, each.witnesses) for each in results] == [("zombie-write", WORDS, (2, 3))]


def test_a_zombie_write_without_a_send_has_no_witness(find_in_run: FindInRun) -> None:
    results = find_in_run("log", history(*send(0, 1, 0), *drain(3, (0, 1))), (), records=LOG)
    assert [(each.name, each.witnesses) for each in results] == [("zombie-write", ())]
