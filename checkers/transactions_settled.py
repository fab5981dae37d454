"""How transactions ended by the brokers' own logs, where their clients were not told, or were told something else.

Behind a transaction's records stands a marker of its producer, which commits or aborts them (KIP-98): the first marker
of that producer in the partition is theirs. Records are known by their values. All replicas' logs are asked, and one
answers for a record that others have not got yet; where they contradict each other nothing is settled.

    torn-transaction       the logs commit some of a transaction's records and abort others
    settled (tolerated)    how many transactions with an unknown end were committed, were aborted, or stay open

What may live here: what logs say of transactions. What may not: what clients saw of them.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.transactions_edges import writes
from checkers.transactions_rules import told


def marked(records: DataFrame) -> DataFrame:
    """(key, value, committed, aborted): each record in any log, and which markers stand behind it there."""
    behind = (
        Window.partitionBy("node", "topic", "partition", "producer_id")
        .orderBy("offset")
        .rowsBetween(1, Window.unboundedFollowing)
    )
    each = records.where("producer_id >= 0").withColumn("ended", fn.first("marker", ignorenulls=True).over(behind))
    key = fn.concat_ws("-", "topic", "partition").alias("key")
    return each.where("value is not null").groupBy(key, "value").agg(_any("commit"), _any("abort"))


def _any(marker: str) -> Column:
    return fn.coalesce(fn.max(fn.col("ended") == marker), fn.lit(False)).alias(marker)


def outcomes(effects: DataFrame, records: DataFrame) -> DataFrame:
    """(writer, writer_end, writer_status, committed, aborted): of each transaction that sent to a log, a record that
    the brokers committed and one that they aborted; null for none."""
    sent = writes(effects).where("form = 'log'").join(marked(records), ["key", "value"], "left")
    record = fn.concat("key", fn.lit("="), "value")
    committed = fn.min(fn.when(fn.col("commit") & ~fn.col("abort"), record)).alias("committed")
    aborted = fn.min(fn.when(fn.col("abort") & ~fn.col("commit"), record)).alias("aborted")
    return sent.groupBy("writer", "writer_end", "writer_status").agg(committed, aborted)


def settle(effects: DataFrame, outcomes: DataFrame) -> DataFrame:
    """The effects, with writes of transactions whose end was unknown held to what the logs say of them."""
    whole = outcomes.where("writer_status = 'info' and (committed is null or aborted is null)")
    status = fn.when(fn.col("committed").isNotNull(), "ok").when(fn.col("aborted").isNotNull(), "fail")
    known = whole.select(fn.col("writer").alias("txn"), fn.lit("wrote").alias("what"), status.alias("settled"))
    joined = effects.join(known, ["txn", "what"], "left")
    return joined.withColumn("status", fn.coalesce("settled", "status")).select(*effects.columns)


def torn_by_logs(outcomes: DataFrame) -> DataFrame:
    """Transactions that the logs commit and abort."""
    torn = outcomes.where("committed is not null and aborted is not null").withColumn("key", fn.lit(None))
    words = (
        "a transaction is committed as a whole or not at all: of T{writer} the brokers' logs commit {committed} and "
        "abort {aborted}"
    )
    return told(torn, "torn-transaction", words, "writer", "writer_end")


def how_settled(outcomes: DataFrame) -> DataFrame:
    """One row that counts what became of unknown ends, if there were any."""
    unknown = outcomes.where("writer_status = 'info'")
    has_committed, has_aborted = fn.col("committed").isNotNull(), fn.col("aborted").isNotNull()
    counted = unknown.agg(
        fn.count("*").alias("all"),
        fn.count_if(has_committed).alias("were_committed"),
        fn.count_if(has_aborted & ~has_committed).alias("were_aborted"),
        fn.count_if(~has_committed & ~has_aborted).alias("unsettled"),
        fn.min("writer").alias("first"),
        fn.lit(None).alias("key"),
    )
    words = (
        "of {all} transactions of which nobody was told how they ended, the brokers' logs say that {were_committed} "
        "were committed and {were_aborted} aborted; {unsettled} they leave open"
    )
    return told(counted.where("all > 0"), "settled", words, "first", severity="tolerated")
