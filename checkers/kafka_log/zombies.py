"""Zombies: producers that a newer producer with their transactional.id has fenced, and whose writes appear
nevertheless.

A producer id persists. Each producer that takes it over gets a higher epoch, which fences the others (KIP-98, KIP-360);
since KIP-890 so does the end of each transaction. Two things prove that a fenced producer wrote:

    the error that its client got, with a read that returned the refused value: the checks of log and transactions
    recognize such errors by is_fenced
    the brokers' own logs: in a partition a record follows a record or marker of the same producer id with a higher
    epoch, on one replica or on all

If a broker has forgotten a producer that was silent for long (producer.id.expiration.ms), it may accept an old epoch:
that is a zombie write like any other.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.framework.contract import finding

NAME = "zombie-write"

FENCED_ERRORS = (
    "_FENCED",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "ProducerFencedException",
    "InvalidProducerEpochException",
)
"""The names of the error in librdkafka, in the protocol and in Java's client."""

RECORD = (RUN, "topic", "partition", "offset", "value", "producer_id", "producer_epoch")


def is_fenced(error: Column) -> Column:
    """Whether an error means that a producer was fenced; false without an error."""
    return fn.coalesce(error.rlike(rf"(?i)(?<!\w)({'|'.join(FENCED_ERRORS)})(?!\w)"), fn.lit(False))


def behind_newer(records: DataFrame) -> DataFrame:
    """(key, *RECORD, node, newer): each record after a newer epoch of its producer id, the lowest node on which it is,
    and that epoch as (producer_epoch, offset)."""
    before = (
        Window.partitionBy(RUN, "node", "topic", "partition", "producer_id")
        .orderBy("offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    # The record with the highest epoch, at its lowest offset.
    newest = fn.max(fn.struct("producer_epoch", (-fn.col("offset")).alias("before"))).over(before)
    each = records.where("producer_id >= 0").withColumn("newest", newest)
    late = each.where("value is not null and producer_epoch < newest.producer_epoch")
    newer = fn.struct(fn.col("newest.producer_epoch"), (-fn.col("newest.before")).alias("offset"))
    first = late.groupBy(*RECORD).agg(fn.min("node").alias("node"), fn.min_by(newer, "node").alias("newer"))
    return first.select(fn.concat_ws("-", "topic", "partition").alias("key"), *RECORD, "node", "newer")


def zombie_writes(records: DataFrame, sent: DataFrame, check: str) -> DataFrame:
    """A finding of this check for each such record; sent is (run, key, value, call, end), a row for each value sent."""
    late = behind_newer(records).localCheckpoint()
    # The senders are joined only if there is a zombie, which is rare.
    unknown = late.select("*", *(fn.lit(None).cast("bigint").alias(end) for end in ("call", "end")))
    found = unknown if late.isEmpty() else late.join(sent, [RUN, "key", "value"], "left")
    words = (
        "a fenced producer writes nothing: on node %d %s=%s at offset %d is by producer %d of epoch %d, after its "
        "epoch %d at offset %d"
    )
    record = ("node", "key", "value", "offset", "producer_id", "producer_epoch")
    message = fn.format_string(words, *record, "newer.producer_epoch", "newer.offset")
    witnesses = fn.array_compact(fn.array("call", "end"))
    return finding(found, check, NAME, message, key=fn.col("key"), node=fn.col("node"), witnesses=witnesses)
