"""What leaders claim to be committed beside what they know of the voters, from DescribeQuorum (KIP-595, Raft's §5.4).

    high-watermark-without-majority   a majority of the voters reach up to a leader's high watermark, or further
    committed-record-not-on-leader    a leader's log reaches as far as anything that was committed in an earlier epoch
    follower-stuck                    a follower catches up once nothing keeps it from doing so

A claim tells how far the leader knows each voter's log to reach. What a voter once had it may lose with its disk, so
that the furthest it was ever known to reach in the epoch counts; and where the voters changed in an epoch nothing is
said of that epoch's majorities, for which of them committed what is not told. The second rule needs no clock: epochs
are in order, and a leader never cuts its own log.

A follower is stuck that stood still below the high watermark for all of the last STUCK_NS of a leader's claims, while
its process ran and no fault was in place.

What may live here: rules on claims. What may not: what needs logs at rest, which is divergence.py's.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.contract import finding
from checkers.framework.timeline import nemesis_ops
from checkers.quorum.voters import reported_reaches
from harness.model.nemesis_ops import NemesisOps
from harness.model.records.fault_intervals import fault_intervals, spans_of

STUCK_NS = 10_000_000_000
SPARE_NS = 1_000_000_000
"""How much shorter than STUCK_NS the claims may reach back: polls are some time apart."""

IN_ORDER = ("time_ns", "position")
NOT_FAULTS = ("mark", "await")
FOREVER = 1 << 62


def reaches(observations: DataFrame) -> DataFrame:
    """(node, epoch, time_ns, position, high_watermark, voter, reach): how far each claim knows each voter to reach."""
    claims = observations.where((fn.col("kind") == "claim") & (fn.col("high_watermark") >= 0))
    own = ("node", "epoch", *IN_ORDER, "high_watermark")
    told = claims.select(*own, fn.explode(reported_reaches()).alias("voter", "reach"))
    return told.withColumn("voter", fn.col("voter").cast("int"))


def high_watermark_without_majority(observations: DataFrame, check: str) -> DataFrame:
    """The first claim of each leader and epoch whose high watermark fewer than a majority ever reached."""
    known = reaches(observations)
    tenure = Window.partitionBy("node", "epoch", "voter").orderBy(*IN_ORDER)
    so_far = known.withColumn(
        "furthest", fn.max("reach").over(tenure.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    reached = fn.count(fn.when(fn.col("furthest") >= fn.col("high_watermark"), 1))
    claims = so_far.groupBy("node", "epoch", *IN_ORDER, "high_watermark").agg(
        fn.sort_array(fn.collect_set("voter")).alias("voters"), reached.alias("reached")
    )
    in_epoch = Window.partitionBy("node", "epoch")
    alike = claims.withColumn("sets", fn.size(fn.collect_set("voters").over(in_epoch))).where("sets = 1")
    short = alike.where(2 * fn.col("reached") <= fn.size("voters"))
    first = short.withColumn("rank", fn.row_number().over(in_epoch.orderBy(*IN_ORDER))).where("rank = 1")
    text = "a high watermark is held by a majority: in epoch %d node %d claimed %d, which %d of %d voters had reached"
    message = fn.format_string(text, "epoch", "node", "high_watermark", "reached", fn.size("voters"))
    name = "high-watermark-without-majority"
    return finding(first, check, name, message, node=fn.col("node"), time_ns=fn.col("time_ns"))


def committed_record_not_on_leader(observations: DataFrame, check: str) -> DataFrame:
    """The first claim of each leader and epoch whose log ends below a high watermark of an earlier epoch."""
    claims = observations.where(fn.col("kind") == "claim").select(
        "node", "epoch", *IN_ORDER, "high_watermark", "log_end_offset"
    )
    earlier = Window.orderBy("epoch").rangeBetween(Window.unboundedPreceding, -1)
    short = claims.withColumn("committed", fn.max("high_watermark").over(earlier)).where(
        "log_end_offset >= 0 and log_end_offset < committed"
    )
    claim = fn.struct("time_ns", "log_end_offset", "committed")
    first = short.groupBy("node", "epoch").agg(fn.min_by(claim, fn.struct(*IN_ORDER)).alias("claim"))
    first = first.select("node", "epoch", "claim.*")
    text = "what was committed is in every later leader's log: in epoch %d that of node %d ended at %d, below %d"
    message = fn.format_string(text, "epoch", "node", "log_end_offset", "committed")
    name = "committed-record-not-on-leader"
    return finding(first, check, name, message, node=fn.col("node"), time_ns=fn.col("time_ns"))


def follower_stuck(history: DataFrame, observations: DataFrame, check: str, ops: NemesisOps) -> DataFrame:
    """Voters that stood still below the high watermark for the last claims of the last leader."""
    known = reaches(observations)
    end = known.agg(fn.max("time_ns").alias("end_ns"), fn.max_by("node", "time_ns").alias("leader"))
    end = end.withColumn("from_ns", fn.col("end_ns") - STUCK_NS)
    last = known.join(end, on=fn.col("node") == fn.col("leader"), how="inner").where("time_ns >= from_ns")
    stood = last.groupBy("epoch", "leader", "voter", "from_ns", "end_ns").agg(
        fn.min("time_ns").alias("since_ns"),
        fn.min("reach").alias("least"),
        fn.max("reach").alias("most"),
        fn.min("high_watermark").alias("committed"),
    )
    still = stood.where("voter != leader and least = most and most < committed")
    long_enough = still.where(fn.col("since_ns") <= fn.col("from_ns") + SPARE_NS)
    calm = long_enough.where(fn.col("from_ns") > last_disturbance_ns(history, ops))
    # What does not run, or has not for long, need not catch up.
    able = calm.join(running(observations), on="voter", how="inner").where("changed_ns < from_ns")
    text = (
        "a follower catches up once nothing keeps it: node %d stood at %d for %d s, below high watermark %d of node %d"
    )
    seconds = ((fn.col("end_ns") - fn.col("since_ns")) / 1_000_000_000).cast("int")
    message = fn.format_string(text, "voter", "most", seconds, "committed", "leader")
    return finding(able, check, "follower-stuck", message, node=fn.col("voter"), time_ns=fn.col("since_ns"))


def last_disturbance_ns(history: DataFrame, ops: NemesisOps) -> int:
    """When the last fault was undone, or the last deed done; FOREVER while a fault is in place."""
    done = [op for op in nemesis_ops(history) if op.f not in NOT_FAULTS]
    spans = spans_of(fault_intervals(done, FOREVER, ops))
    return max([op.time_ns for op in done] + [end for _, end in spans], default=-FOREVER)


def running(observations: DataFrame) -> DataFrame:
    """(voter, changed_ns): the nodes whose processes run at the end, and since when."""
    lives = observations.where(fn.col("kind").isin("started", "stopped"))
    last = lives.groupBy(fn.col("node").alias("voter")).agg(
        fn.max_by("kind", fn.struct("time_ns", "position")).alias("kind"), fn.max("time_ns").alias("changed_ns")
    )
    return last.where("kind = 'started'").select("voter", "changed_ns")
