"""Zombies: producers that a newer one with their transactional.id has fenced, and whose writes appear all the same.

A producer's id lasts, and each who takes it over gets a higher epoch, which shuts the others out (KIP-98, KIP-360); so
does the end of each transaction since KIP-890. Two things tell that one who was shut out wrote:

    the error that its client was told, with a read that returned what was refused so: the checks of log and
    transactions know such errors by is_fenced
    the brokers' own logs: in a partition a record stands behind a record or marker of the same producer id that has a
    higher epoch, on one replica or on all

Where a broker has forgotten a producer that long said nothing (producer.id.expiration.ms), it may let an old epoch in:
that is a zombie's write like any other.

What may live here: what both checks say of zombies. What may not: histories' operations.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.contract import finding

NAME = "zombie-write"

FENCED_ERRORS = (
    "_FENCED",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "ProducerFencedException",
    "InvalidProducerEpochException",
)
"""What librdkafka, the protocol and Java's client call it."""

RECORD = ("topic", "partition", "offset", "value", "producer_id", "producer_epoch")


def is_fenced(error: Column) -> Column:
    """Whether an error says that a producer was fenced; an operation without an error was not."""
    return fn.coalesce(error.rlike(rf"(?i)(?<!\w)({'|'.join(FENCED_ERRORS)})(?!\w)"), fn.lit(False))


def behind_newer(records: DataFrame) -> DataFrame:
    """(key, *RECORD, node, newer): each record that stands behind a newer epoch of its producer id, the first node on
    which it does, and that epoch as (producer_epoch, offset)."""
    before = (
        Window.partitionBy("node", "topic", "partition", "producer_id")
        .orderBy("offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    # Of those with the highest epoch the one at the lowest offset.
    newest = fn.max(fn.struct("producer_epoch", (-fn.col("offset")).alias("before"))).over(before)
    each = records.where("producer_id >= 0").withColumn("newest", newest)
    late = each.where("value is not null and producer_epoch < newest.producer_epoch")
    newer = fn.struct(fn.col("newest.producer_epoch"), (-fn.col("newest.before")).alias("offset"))
    first = late.groupBy(*RECORD).agg(fn.min("node").alias("node"), fn.min_by(newer, "node").alias("newer"))
    return first.select(fn.concat_ws("-", "topic", "partition").alias("key"), *RECORD, "node", "newer")


def zombie_writes(records: DataFrame, sent: DataFrame, check: str) -> DataFrame:
    """A finding of this check for each such record; sent is (key, value, call, end), one row for what was sent."""
    late = behind_newer(records).localCheckpoint()
    # Who sent what is asked only where there is something to tell, which is hardly ever.
    nobody = late.select("*", *(fn.lit(None).cast("bigint").alias(end) for end in ("call", "end")))
    told = nobody if late.isEmpty() else late.join(sent, ["key", "value"], "left")
    words = (
        "a fenced producer writes nothing more: on node %d %s=%s at offset %d is producer %d's of epoch %d, behind its "
        "epoch %d at offset %d"
    )
    record = ("node", "key", "value", "offset", "producer_id", "producer_epoch")
    message = fn.format_string(words, *record, "newer.producer_epoch", "newer.offset")
    witnesses = fn.array_compact(fn.array("call", "end"))
    return finding(told, check, NAME, message, key=fn.col("key"), node=fn.col("node"), witnesses=witnesses)
