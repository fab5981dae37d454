"""Many small histories judged in one job of Spark: each is given keys, processes and indexes of its own.

What may live here: the way there and back. What may not: histories, and what is expected of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.framework.contract import JudgeSettings
from checkers.framework.tables import suit
from checkers.kafka_log import client_log as log
from checkers.linearizability.by_key import by_key as linearizability
from checkers.linearizability.models import MODELS
from checkers.transactions import isolation as transactions
from harness.model import Op
from harness.model.records.tables import HISTORY
from tests.support.checks.small_histories import row

STRIDE = 1000
"""More than a small history has rows, or processes."""

SETTINGS = JudgeSettings(idle=True)


class Found(NamedTuple):
    """A finding in the terms of the history that it is of."""

    name: str
    severity: str
    witnesses: tuple[int, ...]


def judged(spark: SparkSession, what: str, histories: Sequence[Sequence[Op]]) -> list[list[Found]]:
    """The findings on each history: what is a model's name, `log` or `transactions`."""
    suit(spark, rows=len(histories))
    history = table(spark, [op for number, ops in enumerate(histories) for op in apart(number, ops)])
    if what in MODELS:
        findings = linearizability.findings(history, MODELS[what], what, SETTINGS)
    else:
        check = log if what == "log" else transactions
        findings = check.findings(history, history.limit(0), SETTINGS)
    found: Mapping[int, list[Found]] = defaultdict(list)
    for one in findings.select("name", "severity", "witnesses").collect():
        own = tuple(index % STRIDE for index in one["witnesses"])
        found[one["witnesses"][0] // STRIDE].append(Found(one["name"], one["severity"], own))
    return [found[number] for number in range(len(histories))]


def table(spark: SparkSession, ops: Sequence[Op]) -> DataFrame:
    """The history as Spark has it."""
    return spark.createDataFrame(pa.Table.from_pylist([row(op) for op in ops], HISTORY).to_pandas(), HISTORY_SCHEMA)


HISTORY_SCHEMA = from_arrow_schema(HISTORY)


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
    """A key of this number's history alone."""
    return f"{number}/{key}"


def own_value(number: int, op: Op) -> Any:
    """What an operation holds, the keys in it being its history's own."""
    if op.f in ("poll", "commit", "committed") and op.value is not None:
        return own_keys(number, op.value)
    if op.f != "txn" or op.value is None:
        return op.value
    return [own_mop(number, micro_op) for micro_op in op.value]


def own_mop(number: int, micro_op: list) -> list:
    """A micro-operation, its keys being its history's own, if it has any."""
    if micro_op[0] == "poll":
        return ["poll", own_keys(number, micro_op[1])]
    return [micro_op[0], own_key(number, micro_op[1]), *micro_op[2:]] if len(micro_op) > 1 else micro_op


def own_keys(number: int, by_key: Mapping[str, Any]) -> dict[str, Any]:
    """What a poll returned, or a commit told, by key."""
    return {own_key(number, key): told for key, told in by_key.items()}
