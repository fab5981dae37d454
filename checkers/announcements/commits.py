"""High watermarks that nodes announced in Fetch, compared with what the voters had fetched and with the logs on disk.

    announced-commit-without-majority
                        a majority of the voters holds what a leader announces as committed: itself, and each follower
                        that has fetched in the leader's epoch from there or beyond
    announced-commit-beyond-log
                        a follower's high watermark is at most the end of its log, from which it fetches
    announced-commit-missing
                        at the end of the run, a majority of the voters' logs holds all that was announced; the rule
                        begins above what leaders claimed (`committed-record-missing`, checkers/kafka_log/divergence.py)
    announced-commit-overwritten
                        no log has a record of a later epoch below a high watermark that was announced in an epoch

A leader's response has the high watermark of its epoch, a follower's request that which it knows (KIP-1166, Fetch from
version 18 on). The first rule needs the record of all fetches of an epoch. A new leader knows no high watermark
(KIP-595), so the rule is silent until the leader was seen to answer so. It needs voters that never changed, since which
set committed what is not recorded. It counts fetches that were lost on the way, and those that the leader answered with
a divergence, so it may miss a violation. The rules on logs do not excuse a lost disk.

Contains the rules.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.announcements.violations import broken
from checkers.framework.by_run import RUN
from checkers.framework.contract import JudgeSettings
from checkers.kafka_log.divergence import committed_state, missing_offsets
from checkers.quorum.voters import Electorates, electorates, is_of_quorum
from harness.model.faults.rpc import Api


def rules(rpcs: DataFrame, batches: DataFrame, observations: DataFrame, settings: JudgeSettings) -> list[DataFrame]:
    """The findings of each rule, as `broken` returns them."""
    return [
        without_majority(rpcs, electorates(batches, observations, settings), settings),
        beyond_log(rpcs),
        commits_missing(rpcs, batches, observations),
        commits_overwritten(rpcs, batches),
    ]


def announced(rpcs: DataFrame) -> DataFrame:
    """(run, node, epoch, high_watermark, time_ns): every high watermark that a node announced."""
    known = rpcs.where("high_watermark > 0 and epoch is not null")
    return known.select(RUN, fn.col("source").alias("node"), "epoch", "high_watermark", "time_ns")


def highest_announcement() -> Column:
    """The highest high watermark, with the time and node of its first announcement, as `highest`."""
    return fn.max(fn.struct("high_watermark", (-fn.col("time_ns")).alias("before_ns"), "node")).alias("highest")


def first_announced() -> Column:
    """The time of the announcement `highest`."""
    return -fn.col("highest.before_ns")


def without_majority(rpcs: DataFrame, electorates: Electorates, settings: JudgeSettings) -> DataFrame:
    """The first high watermark of each leader and epoch from which no majority of the voters had fetched."""
    voters = electorates.only_set(settings)
    any_voter = sorted({voter for each in electorates.of.values() for voter in each.only_set()})
    is_response = fn.col("direction") == "response"
    leader = fn.when(is_response, fn.col("source")).otherwise(fn.col("target"))
    fetches = rpcs.where((fn.col("api_key") == int(Api.FETCH)) & fn.col("epoch").isNotNull())
    in_order = Window.partitionBy(RUN, "node", "epoch").orderBy("time_ns", "position")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)

    def has_reached(voter: int) -> Column:
        fetched_from = fn.when(~is_response & (fn.col("source") == voter), fn.col("fetch_offset"))
        fetched = fn.coalesce(fn.max(fetched_from).over(so_far) >= fn.col("high_watermark"), fn.lit(False))
        return (fn.array_contains(voters, fn.lit(voter)) & ((fn.col("node") == voter) | fetched)).cast("int")

    knew_none = fn.max(is_response & (fn.col("high_watermark") < 0)).over(so_far)
    reached = fetches.withColumn("node", leader).select(
        RUN,
        "node",
        "epoch",
        "time_ns",
        (is_response & (fn.col("high_watermark") > 0) & knew_none).alias("is_announced"),
        "high_watermark",
        reduce(add, map(has_reached, any_voter), fn.lit(0)).alias("reached"),
    )
    short = reached.where(fn.col("is_announced") & (2 * fn.col("reached") <= fn.size(voters)) & (fn.size(voters) > 0))
    announcement = fn.struct("time_ns", "high_watermark", "reached")
    first = (
        short.groupBy(RUN, "node", "epoch")
        .agg(fn.min(announcement).alias("first"))
        .select(RUN, "node", "epoch", "first.*")
    )
    text = "a majority holds what is committed: in epoch %d node %d announced %d, which %d of %d voters had"
    message = fn.format_string(text, "epoch", "node", "high_watermark", "reached", fn.size(voters))
    return broken(first, "announced-commit-without-majority", message)


def beyond_log(rpcs: DataFrame) -> DataFrame:
    """The first request of each node and epoch with a high watermark above the offset from which it fetches."""
    above = rpcs.where("direction = 'request' and high_watermark > fetch_offset")
    request = fn.struct("time_ns", "high_watermark", "fetch_offset")
    first = above.groupBy(RUN, fn.col("source").alias("node"), "epoch").agg(fn.min(request).alias("first"))
    text = "a high watermark is at most the log's end: in epoch %d node %d announced %d while its log ended at %d"
    message = fn.format_string(text, "epoch", "node", "first.high_watermark", "first.fetch_offset")
    return broken(first, "announced-commit-beyond-log", message, time_ns=fn.col("first.time_ns"))


def commits_missing(rpcs: DataFrame, batches: DataFrame, observations: DataFrame) -> DataFrame:
    """Each range of offsets between what leaders claimed and what was announced as committed that no majority holds."""
    highest = announced(rpcs).groupBy(RUN).agg(highest_announcement()).select(
        RUN, fn.col("highest.high_watermark").alias("announced"), first_announced().alias("time_ns"), "highest.node"
    )  # fmt: skip
    state = (
        committed_state(batches, observations)
        .withColumnRenamed("high_watermark", "claimed")
        .join(highest, on=RUN, how="inner")
    )
    later = state.where("announced > claimed").withColumnRenamed("announced", "high_watermark")
    missing = missing_offsets(batches, later).where("last >= claimed")
    begin = fn.greatest("begin", "claimed")
    text = (
        "committed records are on a majority: node %d announced %d, and no majority of the logs holds offsets %d to %d"
    )
    message = fn.format_string(text, "node", "high_watermark", begin, "last")
    return broken(missing, "announced-commit-missing", message)


def commits_overwritten(rpcs: DataFrame, batches: DataFrame) -> DataFrame:
    """The highest announced high watermark of each epoch, if a log has a record of a later epoch below it."""
    highest = announced(rpcs).groupBy(RUN, "epoch").agg(highest_announcement())
    logs = batches.where(is_of_quorum()).groupBy(RUN, "leader_epoch", fn.col("node").alias("log"))
    begins = logs.agg(fn.min("base_offset").alias("offset"))
    is_later = (fn.col("leader_epoch") > fn.col("epoch")) & (fn.col("offset") < fn.col("highest.high_watermark"))
    found = highest.join(begins, on=RUN, how="inner").where(is_later)
    record = fn.min(fn.struct("leader_epoch", "offset", "log")).alias("record")
    first = found.groupBy(RUN, "epoch", "highest").agg(record)
    text = "what is committed stays: in epoch %d node %d announced %d, and at offset %d the log of node %d has epoch %d"
    message = fn.format_string(
        text, "epoch", "highest.node", "highest.high_watermark", "record.offset", "record.log", "record.leader_epoch"
    )
    placed = first.withColumn("node", fn.col("highest.node"))
    return broken(placed, "announced-commit-overwritten", message, time_ns=first_announced())
