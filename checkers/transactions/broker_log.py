"""How transactions ended by the brokers' own logs, where their clients were not told, or were told something else.

Behind a transaction's records stands a marker of its producer, which commits or aborts them (KIP-98): the first marker
of that producer in the partition is theirs. Records are known by their values. All replicas' logs are asked, and one
answers for a record that others have not got yet; where they contradict each other nothing is settled.

    torn-transaction       the logs commit some of a transaction's records and abort others
    hanging-transaction    every transaction ends: its records have a marker behind them in some log, this long after
                           the client took it for ended; who reads what is committed gets no further until then
    settled (tolerated)    how many transactions with an unknown end were committed, were aborted, or stay open

What may live here: what logs say of transactions. What may not: what clients saw of them.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from checkers.transactions.edges import writes
from checkers.transactions.rules import told

HANGING_SECONDS = 25
"""More than brokers take to abort what nobody ends: the transactions' timeout, and a look every ten seconds."""


def ended_records(effects: DataFrame, records: DataFrame) -> DataFrame:
    """(key, value, writer, writer_end, writer_status, record, end): each record of a log's transactions in words, and
    what stands behind it in the logs: `commit`, `abort`, `none`, `both` where two disagree; null where none has it."""
    behind = (
        Window.partitionBy("node", "topic", "partition", "producer_id")
        .orderBy("offset")
        .rowsBetween(1, Window.unboundedFollowing)
    )
    each = records.where("producer_id >= 0").withColumn("marker", fn.first("marker", ignorenulls=True).over(behind))
    key = fn.concat_ws("-", "topic", "partition").alias("key")
    by_log = each.where("value is not null").groupBy(key, "value").agg(fn.collect_set("marker").alias("markers"))
    one = fn.when(fn.size("markers") == 1, fn.get("markers", fn.lit(0))).when(fn.size("markers") == 0, "none")
    one = fn.when(fn.size("markers") > 1, "both").otherwise(one)
    sent = writes(effects).where("form = 'log'").join(by_log, ["key", "value"], "left")
    record = fn.concat("key", fn.lit("="), "value").alias("record")
    return sent.select("key", "value", "writer", "writer_end", "writer_status", record, one.alias("end"))


def outcomes(ended: DataFrame) -> DataFrame:
    """(writer, writer_end, writer_status, logged, committed, aborted): of each transaction that sent to a log, a
    record that is in any, one that the brokers committed and one that they aborted; null for none."""
    committed = fn.min(fn.when(fn.col("end") == "commit", fn.col("record"))).alias("committed")
    aborted = fn.min(fn.when(fn.col("end") == "abort", fn.col("record"))).alias("aborted")
    logged = fn.min(fn.when(fn.col("end").isNotNull(), fn.col("record"))).alias("logged")
    return ended.groupBy("writer", "writer_end", "writer_status").agg(logged, committed, aborted)


def hanging_records(ended: DataFrame, history: DataFrame) -> DataFrame:
    """The records that have no marker, with `seconds` from their client's last word to the history's."""
    last = history.agg(fn.max("time_ns").alias("last_ns"))
    ends = history.select(fn.col("index").alias("writer_end"), "time_ns")
    seconds = ((fn.col("last_ns") - fn.col("time_ns")) / 1e9).alias("seconds")
    still_open = ended.where("end = 'none'").join(ends, "writer_end", "inner").crossJoin(last)
    return still_open.select("key", "writer", "writer_end", "record", seconds).where(
        fn.col("seconds") >= HANGING_SECONDS
    )


def settle(effects: DataFrame, outcomes: DataFrame) -> DataFrame:
    """The effects, with what transactions whose end was unknown did, but for reads, held to what the logs say of it."""
    whole = outcomes.where("writer_status = 'info' and (committed is null or aborted is null)")
    status = fn.when(fn.col("committed").isNotNull(), "ok").when(fn.col("aborted").isNotNull(), "fail")
    deeds = fn.explode(fn.array(fn.lit("wrote"), fn.lit("fence"))).alias("what")
    known = whole.select(fn.col("writer").alias("txn"), deeds, status.alias("settled"))
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


def hanging_transactions(hanging: DataFrame) -> DataFrame:
    """Transactions with such records."""
    rounded = fn.round(fn.min("seconds")).cast("int").alias("seconds")
    each = hanging.groupBy("writer", "writer_end").agg(
        fn.min("key").alias("key"), fn.min("record").alias("record"), rounded
    )
    words = (
        "every transaction ends: behind {record}, which T{writer} wrote, no log has a marker {seconds} s after its "
        "client's last word, and whoever reads what is committed gets no further"
    )
    return told(each, "hanging-transaction", words, "writer", "writer_end")


def how_settled(outcomes: DataFrame) -> DataFrame:
    """One row that counts what became of unknown ends, if there were any."""
    unknown = outcomes.where("writer_status = 'info'")
    has_committed, has_aborted = fn.col("committed").isNotNull(), fn.col("aborted").isNotNull()
    counted = unknown.agg(
        fn.count("*").alias("all"),
        fn.count_if(has_committed).alias("were_committed"),
        fn.count_if(has_aborted & ~has_committed).alias("were_aborted"),
        fn.count_if(fn.col("logged").isNull()).alias("nowhere"),
        fn.count_if(fn.col("logged").isNotNull() & ~has_committed & ~has_aborted).alias("unsettled"),
        fn.min("writer").alias("first"),
        fn.lit(None).alias("key"),
    )
    words = (
        "of {all} transactions of which nobody was told how they ended, the brokers' logs say that {were_committed} "
        "were committed and {were_aborted} aborted; {nowhere} left no record, and {unsettled} are open"
    )
    return told(counted.where("all > 0"), "settled", words, "first", severity="tolerated")
