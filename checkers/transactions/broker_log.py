"""The outcomes of transactions in the brokers' own logs, for clients that got none, or another one.

A marker of the producer follows a transaction's records and commits or aborts them (KIP-98): the first marker of that
producer in the partition is theirs. Records are identified by their values. All replicas' logs count, and one suffices
for a record that others have not got yet; if they contradict each other, the outcome stays unknown.

    torn-transaction       the logs commit some of a transaction's records and abort others
    hanging-transaction    every transaction ends: some log has a marker after its records within this time of the end
                           that its client saw; until then read_committed consumers make no progress
    settled (tolerated)    how many transactions with an unknown outcome were committed, aborted, or are open

Contains what logs show of transactions. checkers/transactions/rules.py has the rules on what clients saw.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.transactions.edges import writes
from checkers.transactions.rules import transaction_finding

HANGING_SECONDS = 25
"""Longer than brokers take to abort an abandoned transaction: its timeout, and a scan every ten seconds."""


def ended_records(effects: DataFrame, records: DataFrame) -> DataFrame:
    """(run, key, value, writer, writer_end, writer_status, record, end): each record of a log's transactions as text,
    and the marker after it in the logs: `commit`, `abort`, `none`, `both` if two disagree; null without a log."""
    behind = (
        Window.partitionBy(RUN, "node", "topic", "partition", "producer_id")
        .orderBy("offset")
        .rowsBetween(1, Window.unboundedFollowing)
    )
    each = records.where("producer_id >= 0").withColumn("marker", fn.first("marker", ignorenulls=True).over(behind))
    key = fn.concat_ws("-", "topic", "partition").alias("key")
    by_log = each.where("value is not null").groupBy(RUN, key, "value").agg(fn.collect_set("marker").alias("markers"))
    one = fn.when(fn.size("markers") == 1, fn.get("markers", fn.lit(0))).when(fn.size("markers") == 0, "none")
    one = fn.when(fn.size("markers") > 1, "both").otherwise(one)
    # A run whose logs were not kept is not resolved.
    of_logged = writes(effects).where("form = 'log'").join(records.select(RUN).distinct(), RUN, "left_semi")
    sent = of_logged.join(by_log, [RUN, "key", "value"], "left")
    record = fn.concat("key", fn.lit("="), "value").alias("record")
    return sent.select(RUN, "key", "value", "writer", "writer_end", "writer_status", record, one.alias("end"))


def outcomes(ended: DataFrame) -> DataFrame:
    """(run, writer, writer_end, writer_status, logged, committed, aborted): for each transaction that sent to a log, a
    record that is in some log, one that the brokers committed, and one that they aborted; null for none."""
    committed = fn.min(fn.when(fn.col("end") == "commit", fn.col("record"))).alias("committed")
    aborted = fn.min(fn.when(fn.col("end") == "abort", fn.col("record"))).alias("aborted")
    logged = fn.min(fn.when(fn.col("end").isNotNull(), fn.col("record"))).alias("logged")
    return ended.groupBy(RUN, "writer", "writer_end", "writer_status").agg(logged, committed, aborted)


def hanging_records(ended: DataFrame, history: DataFrame) -> DataFrame:
    """The records without a marker, with `seconds` from their transaction's completion to the end of the history."""
    last = history.groupBy(RUN).agg(fn.max("time_ns").alias("last_ns"))
    ends = history.select(RUN, fn.col("index").alias("writer_end"), "time_ns")
    seconds = ((fn.col("last_ns") - fn.col("time_ns")) / 1e9).alias("seconds")
    still_open = ended.where("end = 'none'").join(ends, [RUN, "writer_end"], "inner").join(last, RUN, "inner")
    return still_open.select(RUN, "key", "writer", "writer_end", "record", seconds).where(
        fn.col("seconds") >= HANGING_SECONDS
    )


def resolve(effects: DataFrame, outcomes: DataFrame) -> DataFrame:
    """The effects, where writes of transactions with an unknown outcome have the outcome in the logs."""
    whole = outcomes.where("writer_status = 'info' and (committed is null or aborted is null)")
    status = fn.when(fn.col("committed").isNotNull(), "ok").when(fn.col("aborted").isNotNull(), "fail")
    effects_of = fn.explode(fn.array(fn.lit("wrote"), fn.lit("fence"))).alias("what")
    known = whole.select(RUN, fn.col("writer").alias("txn"), effects_of, status.alias("resolved"))
    joined = effects.join(known, [RUN, "txn", "what"], "left")
    return joined.withColumn("status", fn.coalesce("resolved", "status")).select(*effects.columns)


def torn_by_logs(outcomes: DataFrame) -> DataFrame:
    """Transactions that the logs commit and abort."""
    torn = outcomes.where("committed is not null and aborted is not null").withColumn("key", fn.lit(None))
    words = (
        "a transaction is committed as a whole or not at all: of T{writer} the brokers' logs commit {committed} and "
        "abort {aborted}"
    )
    return transaction_finding(torn, "torn-transaction", words, "writer", "writer_end")


def hanging_transactions(hanging: DataFrame) -> DataFrame:
    """Transactions with records without a marker."""
    rounded = fn.round(fn.min("seconds")).cast("int").alias("seconds")
    each = hanging.groupBy(RUN, "writer", "writer_end").agg(
        fn.min("key").alias("key"), fn.min("record").alias("record"), rounded
    )
    words = (
        "every transaction ends: no log has a marker after {record}, which T{writer} wrote, {seconds} s after it "
        "completed, and read_committed consumers are blocked there"
    )
    return transaction_finding(each, "hanging-transaction", words, "writer", "writer_end")


def resolved_outcomes(outcomes: DataFrame) -> DataFrame:
    """One finding that counts the outcomes of transactions with an unknown one; none without such transactions."""
    unknown = outcomes.where("writer_status = 'info'")
    has_committed, has_aborted = fn.col("committed").isNotNull(), fn.col("aborted").isNotNull()
    counted = unknown.groupBy(RUN).agg(
        fn.count("*").alias("all"),
        fn.count_if(has_committed).alias("were_committed"),
        fn.count_if(has_aborted & ~has_committed).alias("were_aborted"),
        fn.count_if(fn.col("logged").isNull()).alias("nowhere"),
        fn.count_if(fn.col("logged").isNotNull() & ~has_committed & ~has_aborted).alias("still_open"),
        fn.min("writer").alias("first"),
        fn.lit(None).alias("key"),
    )
    words = (
        "of {all} transactions with an unknown outcome, the brokers' logs show {were_committed} committed and "
        "{were_aborted} aborted; {nowhere} left no record, and {still_open} are open"
    )
    return transaction_finding(counted.where("all > 0"), "settled", words, "first", severity="tolerated")
