"""Compares what leaders claim to be committed with what they know of the voters, from DescribeQuorum (KIP-595, Raft
§5.4).

    high-watermark-without-majority   a majority of the voters reaches a leader's high watermark
    voters-changed-early              a leader commits a record of its epoch before it changes the voters (KIP-853)
    committed-record-not-on-leader    a leader's log reaches everything that was committed in earlier epochs
    follower-stuck                    a follower catches up once nothing prevents it

A claim names the voters and how far the leader knows each one's log to reach; observers are not among them. A voter may
lose with its disk what it had, so the rule uses the furthest it was known to reach in the epoch. A fetch that arrives
late, after later ones, sets back what the leader knows (Kafka's too), so a voter that ever went back within the epoch
may have reached anything between two claims. If the voters changed within an epoch, that epoch's majorities are not
checked: which set committed what is not recorded. A change that a leader never committed may be in a claim alone: where
the run has several voter sets, half of a claim's voters are enough, since the set before had one voter more or less.
The other rules need no clock: epochs are ordered, and a leader never truncates its own log.

A follower is stuck if it stayed below the high watermark for the last STUCK_NS of a leader's claims, while it took part
in the quorum and no fault was in place.

Contains rules on claims. Rules on logs at rest are in checkers/kafka_log/divergence.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN, of_run
from checkers.framework.contract import JudgeSettings, finding
from checkers.framework.timeline import nemesis_ops
from checkers.quorum.processes import process_events
from checkers.quorum.voters import reported_reaches, reported_voters
from harness.model import Op
from harness.model.nemesis_ops import NemesisOps
from harness.model.records.fault_intervals import fault_intervals, spans_of

STUCK_NS = 10_000_000_000
SPARE_NS = 1_000_000_000
"""How much later than STUCK_NS before the end the first claim may be: polls are some time apart."""

IN_ORDER = ("time_ns", "position")
NOT_FAULTS = ("mark", "await")
FOREVER = 1 << 62


def reaches(observations: DataFrame) -> DataFrame:
    """(run, node, epoch, time_ns, position, high_watermark, voter, reach): how far each claim knows each voter."""
    claims = observations.where((fn.col("kind") == "claim") & (fn.col("high_watermark") >= 0))
    own = (RUN, "node", "epoch", *IN_ORDER, "high_watermark")
    known = claims.select(*own, fn.explode(reported_reaches()).alias("voter", "reach"))
    return known.withColumn("voter", fn.col("voter").cast("int"))


def high_watermark_without_majority(observations: DataFrame, only_set: Column, check: str) -> DataFrame:
    """The first claim of each leader and epoch whose high watermark no majority had reached.

    only_set has the voters of a row's run if they never changed, else nothing.
    """
    known = reaches(observations)
    tenure = Window.partitionBy(RUN, "node", "epoch", "voter").orderBy(*IN_ORDER)
    so_far = known.withColumn(
        "furthest", fn.max("reach").over(tenure.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    ).withColumn("is_back", fn.coalesce(fn.lag("reach").over(tenure) > fn.col("reach"), fn.lit(False)))
    went_back = fn.max("is_back").over(Window.partitionBy(RUN, "node", "epoch", "voter"))
    so_far = so_far.withColumn("may_have", (fn.col("furthest") >= fn.col("high_watermark")) | went_back)
    reached = fn.count_if("may_have")
    claims = so_far.groupBy(RUN, "node", "epoch", *IN_ORDER, "high_watermark").agg(
        fn.sort_array(fn.collect_set("voter")).alias("voters"), reached.alias("reached")
    )
    in_epoch = Window.partitionBy(RUN, "node", "epoch")
    constant = claims.withColumn("sets", fn.size(fn.collect_set("voters").over(in_epoch))).where("sets = 1")
    never_changed = (fn.size(only_set) > 0).cast("int")
    short = constant.where(2 * fn.col("reached") < fn.size("voters") + never_changed)
    first = short.withColumn("rank", fn.row_number().over(in_epoch.orderBy(*IN_ORDER))).where("rank = 1")
    text = "a high watermark is held by a majority: in epoch %d node %d claimed %d, which %d of %d voters had reached"
    message = fn.format_string(text, "epoch", "node", "high_watermark", "reached", fn.size("voters"))
    name = "high-watermark-without-majority"
    return finding(first, check, name, message, node=fn.col("node"), time_ns=fn.col("time_ns"))


def voters_changed_early(observations: DataFrame, check: str) -> DataFrame:
    """The first claim of each leader and epoch with other voters than its first one, while it has committed nothing.

    An earlier leader's change may be committed yet, and both together have majorities that do not overlap (Ongaro,
    raft-dev, July 2015).
    """
    claims = observations.where("kind = 'claim' and high_watermark < 0").withColumn("voters", reported_voters())
    named = claims.where("size(voters) > 0")
    in_epoch = Window.partitionBy(RUN, "node", "epoch").orderBy(*IN_ORDER)
    changed = named.withColumn("before", fn.first("voters").over(in_epoch)).where("voters != before")
    first = changed.withColumn("rank", fn.row_number().over(in_epoch)).where("rank = 1")
    text = (
        "a leader commits a record of its epoch before it changes the voters: in epoch %d node %d had committed none, "
    )
    of, to = (fn.array_join(name, ", ") for name in ("before", "voters"))
    message = fn.format_string(f"{text}and its voters were %s, then %s", "epoch", "node", of, to)
    name = "voters-changed-early"
    return finding(first, check, name, message, node=fn.col("node"), time_ns=fn.col("time_ns"))


def committed_record_not_on_leader(observations: DataFrame, check: str) -> DataFrame:
    """The first claim of each leader and epoch whose log ends below a high watermark of an earlier epoch."""
    claims = observations.where(fn.col("kind") == "claim").select(
        RUN, "node", "epoch", *IN_ORDER, "high_watermark", "log_end_offset"
    )
    earlier = Window.partitionBy(RUN).orderBy("epoch").rangeBetween(Window.unboundedPreceding, -1)
    short = claims.withColumn("committed", fn.max("high_watermark").over(earlier)).where(
        "log_end_offset >= 0 and log_end_offset < committed"
    )
    claim = fn.struct("time_ns", "log_end_offset", "committed")
    first = short.groupBy(RUN, "node", "epoch").agg(fn.min_by(claim, fn.struct(*IN_ORDER)).alias("claim"))
    first = first.select(RUN, "node", "epoch", "claim.*")
    text = "committed records are in every later leader's log: in epoch %d that of node %d ended at %d, below %d"
    message = fn.format_string(text, "epoch", "node", "log_end_offset", "committed")
    name = "committed-record-not-on-leader"
    return finding(first, check, name, message, node=fn.col("node"), time_ns=fn.col("time_ns"))


def follower_stuck(history: DataFrame, observations: DataFrame, check: str, settings: JudgeSettings) -> DataFrame:
    """Voters that made no progress below the high watermark in the last claims of the last leader."""
    known = reaches(observations)
    end = known.groupBy(RUN).agg(fn.max("time_ns").alias("end_ns"), fn.max_by("node", "time_ns").alias("leader"))
    end = end.withColumn("from_ns", fn.col("end_ns") - STUCK_NS)
    last = known.join(end, on=RUN, how="inner").where("node = leader and time_ns >= from_ns")
    progress = last.groupBy(RUN, "epoch", "leader", "voter", "from_ns", "end_ns").agg(
        fn.min("time_ns").alias("since_ns"),
        fn.min("reach").alias("least"),
        fn.max("reach").alias("most"),
        fn.min("high_watermark").alias("committed"),
    )
    stalled = progress.where("voter != leader and least = most and most < committed")
    long_enough = stalled.where(fn.col("since_ns") <= fn.col("from_ns") + SPARE_NS)
    calm = long_enough.where(fn.col("from_ns") > last_disturbance_ns(history, settings))
    # A node that is down or was just started need not have caught up.
    stuck = calm.join(running(observations), on=[RUN, "voter"], how="inner").where("part_since_ns < from_ns")
    text = (
        "a follower catches up once nothing prevents it: node %d stayed at %d for %d s, below high watermark %d of "
        "node %d"
    )
    seconds = ((fn.col("end_ns") - fn.col("since_ns")) / 1_000_000_000).cast("int")
    message = fn.format_string(text, "voter", "most", seconds, "committed", "leader")
    return finding(stuck, check, "follower-stuck", message, node=fn.col("voter"), time_ns=fn.col("since_ns"))


def last_disturbance_ns(history: DataFrame, settings: JudgeSettings) -> Column:
    """When the last heal or other nemesis operation of a row's run was; FOREVER while a fault is in place."""
    of_nemesis = nemesis_ops(history, settings).items()
    return of_run({run: _last_disturbance_ns(each, settings.ops) for run, each in of_nemesis}, "bigint", settings)


def _last_disturbance_ns(operations: Iterable[Op], ops: NemesisOps) -> int:
    done = [op for op in operations if op.f not in NOT_FAULTS]
    spans = spans_of(fault_intervals(done, FOREVER, ops))
    return max([op.time_ns for op in done] + [end for _, end in spans], default=-FOREVER)


def running(observations: DataFrame) -> DataFrame:
    """(run, voter, part_since_ns): the nodes that take part at the end, and since when."""
    last = (
        process_events(observations)
        .groupBy(RUN, fn.col("node").alias("voter"))
        .agg(
            fn.max_by("takes_part", fn.struct(*IN_ORDER)).alias("takes_part"), fn.max("time_ns").alias("part_since_ns")
        )
    )
    return last.where("takes_part").select(RUN, "voter", "part_since_ns")
