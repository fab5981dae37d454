"""Runs a check on many small histories in one Spark job. Each history gets its own keys, processes and indexes.

Building a query costs a second and running it a tenth of that, so one job for fifty histories takes as long as one for
a single history. The findings come back in the terms of the history that they are about.

Contains the translation there and back. It has no histories and no expectations.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType

from checkers.framework.contract import JudgeSettings
from checkers.framework.tables import configure_for
from checkers.kafka_log import client_log as log
from checkers.kafka_log import divergence
from checkers.linearizability import by_key
from checkers.linearizability.models import MODELS
from checkers.run_checks import collected
from checkers.transactions import isolation as transactions
from harness.model import Finding, Observation, Op
from harness.model.records.logged_batch import LoggedBatch
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS
from tests.support.checks import CHECKS, settings_with
from tests.support.checks.small_histories import history, row

STRIDE = 1000
"""Exceeds the rows and processes of a small history."""

PARTITION_STRIDE = 10
ALL = 1_000_000
SETTINGS = settings_with(idle=True)


class Found(NamedTuple):
    """A finding in the terms of its history."""

    name: str
    severity: str
    witnesses: tuple[int, ...]


def judged(spark: SparkSession, what: str, histories: Sequence[Sequence[Op]]) -> list[list[Found]]:
    """The findings about each history; what is a model's name, `log` or `transactions`."""
    configure_for(spark, rows=len(histories))
    table = history_table(spark, [op for number, ops in enumerate(histories) for op in apart(number, ops)])
    if what in MODELS:
        findings = by_key.findings(table, MODELS[what], what, SETTINGS)
    else:
        check = log if what == "log" else transactions
        findings = check.findings(table, table.limit(0), SETTINGS)
    found: Mapping[int, list[Found]] = defaultdict(list)
    for one in findings.select("name", "severity", "witnesses").collect():
        own = tuple(index % STRIDE for index in one["witnesses"])
        found[one["witnesses"][0] // STRIDE].append(Found(one["name"], one["severity"], own))
    return [found[number] for number in range(len(histories))]


def findings_of_each(
    spark: SparkSession, check: str, histories: Mapping[str, Sequence[Op]], settings: JudgeSettings = SETTINGS
) -> dict[str, list[Finding]]:
    """The findings of a check of clients about each history, by name; every finding must have a witness."""
    configure_for(spark, rows=len(histories))
    numbered = list(enumerate(histories.items(), 1))
    table = history_table(spark, [op for number, (_, ops) in numbered for op in apart(number, history(*ops))])
    found: dict[str, list[Finding]] = {name: [] for name in histories}
    for finding in collected(CHECKS[check].findings(table, table.limit(0), settings), ALL):
        number = finding.witnesses[0] // STRIDE
        found[list(histories)[number - 1]].append(restored(number, finding))
    return found


@dataclass(frozen=True, slots=True)
class Logs:
    """The batches of a partition's logs, its high watermark (0: none), its voters, and what brokers had on file."""

    batches: Sequence[LoggedBatch]
    high_watermark: int = 0
    on_file: Sequence[Observation] = ()
    voters: tuple[int, ...] = (1, 2, 3)


def log_findings_of_each(spark: SparkSession, cases: Mapping[str, Logs]) -> dict[str, list[Finding]]:
    """The findings of the divergence check's rules about each case, by name; each case has partitions of its own."""
    configure_for(spark, rows=len(cases))
    numbered = list(enumerate(cases.values(), 1))
    batches = batch_table(
        spark, [in_partition(number, one) for number, case in numbered for one in case.batches]
    ).localCheckpoint()
    observations = observation_table(spark, [on_file(number, one) for number, case in numbered for one in case.on_file])
    marks = {PARTITION_STRIDE * number: case.high_watermark for number, case in numbered if case.high_watermark}
    voters = {PARTITION_STRIDE * number: case.voters for number, case in numbered}
    committed = committed_table(spark, marks, voters)
    rules = [
        divergence.diverged_logs(batches, committed),
        divergence.committed_records_missing(batches, committed),
        divergence.leader_epoch_went_back(batches),
        divergence.checkpoint_disagrees(batches),
        divergence.truncated_below_high_watermark(batches, observations),
        divergence.corrupt_batches(batches),
    ]
    findings = collected(reduce(DataFrame.unionAll, rules), ALL)
    found: dict[str, list[Finding]] = {name: [] for name in cases}
    for finding in findings:
        partition = int((finding.key or "").rpartition("-")[2])
        found[list(cases)[partition // PARTITION_STRIDE - 1]].append(finding)
    return found


def collected_by_case(frames: Mapping[str, DataFrame]) -> dict[str, list[Finding]]:
    """The findings of several DataFrames in one job, by name."""
    named = [frame.withColumn("evidence", fn.lit(name)) for name, frame in frames.items()]
    found: dict[str, list[Finding]] = {name: [] for name in frames}
    for finding in collected(reduce(DataFrame.unionAll, named), ALL):
        found[finding.evidence or ""].append(replace(finding, evidence=None))
    return found


def restored(number: int, finding: Finding) -> Finding:
    """The finding in the terms of its case: every number of four digits or more was moved by the case's."""
    prefix = rf"\b{number}/"
    message = re.sub(r"\d{4,}", lambda moved: str(int(moved.group()) % STRIDE), re.sub(prefix, "", finding.message))
    return replace(
        finding,
        message=message,
        key=None if finding.key is None else re.sub(prefix, "", finding.key),
        witnesses=tuple(index % STRIDE for index in finding.witnesses),
    )


def history_table(spark: SparkSession, ops: Sequence[Op]) -> DataFrame:
    """The ops as the history's table, in one partition: a worker of Python for each would have to start."""
    rows = pa.Table.from_pylist([row(op) for op in ops], HISTORY).to_pandas()
    return spark.createDataFrame(rows, from_arrow_schema(HISTORY)).withColumn("run", fn.lit(0)).coalesce(1)


def observation_table(spark: SparkSession, seen: Sequence[Observation]) -> DataFrame:
    """The observations as their table, in the order of the record."""
    return positioned(spark, [asdict(one) for one in seen], OBSERVATIONS)


def batch_table(spark: SparkSession, batches: Sequence[LoggedBatch]) -> DataFrame:
    """The batches as their table, in the order of the logs."""
    return positioned(spark, [asdict(one) for one in batches], BATCHES)


def committed_table(
    spark: SparkSession, high_watermarks: Mapping[int, int], voters: Mapping[int, Sequence[int]] | None = None
) -> DataFrame:
    """The table of divergence.committed_state for partitions of the quorum's topic; nodes 1 to 3 vote by default."""
    rows = [
        (0, divergence.QUORUM[0], partition, mark, list(voters[partition] if voters else (1, 2, 3)))
        for partition, mark in high_watermarks.items()
    ]
    return spark.createDataFrame(rows, "run int, topic string, partition int, high_watermark bigint, voters array<int>")


def positioned(spark: SparkSession, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> DataFrame:
    """The rows as a table with each one's position."""
    listed = [(*(row[name] for name in schema.names), at) for at, row in enumerate(rows)]
    table = spark.createDataFrame(listed, from_arrow_schema(schema).add("position", IntegerType()))
    return table.withColumn("run", fn.lit(0)).coalesce(1)


def apart(number: int, ops: Sequence[Op]) -> list[Op]:
    """The history with keys, processes and indexes that no other number has."""
    first = number * STRIDE
    return [
        replace(
            op,
            index=first + op.index,
            process=first + op.process,
            key=None if op.key is None else own_key(number, op.key),
            value=own_value(number, op),
        )
        for op in ops
    ]


def own_key(number: int, key: str) -> str:
    """The key of this number's history."""
    return f"{number}/{key}"


def own_value(number: int, op: Op) -> Any:
    """The op's value, with the keys in it made its history's own."""
    if op.f in ("poll", "commit", "committed") and op.value is not None:
        return own_keys(number, op.value)
    if op.f != "txn" or op.value is None:
        return op.value
    return [own_micro_op(number, micro_op) for micro_op in op.value]


def own_micro_op(number: int, micro_op: list) -> list:
    """The micro-operation, with its key, if it has one, made its history's own."""
    if micro_op[0] == "poll":
        return ["poll", own_keys(number, micro_op[1])]
    return [micro_op[0], own_key(number, micro_op[1]), *micro_op[2:]] if len(micro_op) > 1 else micro_op


def own_keys(number: int, by_key: Mapping[str, Any]) -> dict[str, Any]:
    """What a poll or a commit maps from keys."""
    return {own_key(number, key): value for key, value in by_key.items()}


def in_partition(number: int, batch: LoggedBatch) -> LoggedBatch:
    """The batch in the partition of this number."""
    return replace(batch, partition=PARTITION_STRIDE * number + batch.partition)


def on_file(number: int, seen: Observation) -> Observation:
    """What a broker had on file of the partition of this number."""
    detail = json.loads(seen.detail or "")
    return replace(seen, detail=json.dumps(detail | {"partition": PARTITION_STRIDE * number + detail["partition"]}))
