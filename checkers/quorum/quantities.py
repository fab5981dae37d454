"""The quorum's quantities: the effect of a disruption, counted from the story's mark on.

    epochs_burned, epochs_per_minute            epochs begun since
    epochs_burned_until_heal                    those begun before the last heal, while faults were in place
    leader_changes, leader_changes_per_minute   (leader, epoch) pairs that began to lead since
    leader_changes_until_heal                   those before the last heal
    leader_deposed                              1 if the leader at the mark was replaced, or led a later epoch itself
    two_leaders_ms                              longest time a node led while another led a higher epoch
    no_leader_ms                                total time in which no node led
    commit_gap_ms                               longest time in which no claimed high watermark rose
    recovered, recover_ms                       after the last heal: whether the high watermark rose (or, where nothing
                                                was claimed, a leader led) and how long that took

A quantity without evidence is left out. A node leads from its transition to Leader until it leaves that state or its
process stops, and from its first claim of an epoch to the last.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.framework.contract import Check, JudgeSettings, quantities_of
from checkers.framework.timeline import Timeline, timeline_of
from checkers.quorum import safety
from checkers.quorum.safety import CHECK, IN_ORDER, leaderships
from harness.model.quorum_states import State
from harness.model.records.observation import ENDS

MINUTE_NS = 60_000_000_000
MS_NS = 1_000_000


def quantities(
    history: DataFrame,
    observations: DataFrame,
    batches: DataFrame,  # noqa: ARG001 - the check's findings read it
    settings: JudgeSettings,
) -> DataFrame:
    """Every quantity for which there is evidence."""
    timeline = timeline_of(history, observations, settings)
    led = tenures(observations, timeline)
    parts = [
        epochs(observations, timeline),
        leaders(observations, timeline),
        overlap(led),
        leaderless(led, timeline),
        commits(observations, timeline),
        recovery(observations, timeline),
    ]
    return reduce(DataFrame.unionAll, parts)


def epochs(observations: DataFrame, timeline: Timeline) -> DataFrame:
    """Epochs begun since the mark; since the lowest observed epoch if none was observed before the mark."""
    before = fn.max(fn.when(fn.col("time_ns") <= timeline.story_ns, fn.col("epoch")))
    known = fn.coalesce(before, fn.min("epoch"))
    at_heal = fn.max(fn.when(timeline.until_heal(fn.col("time_ns")), fn.col("epoch")))
    row = (
        observations.groupBy(RUN)
        .agg((fn.max("epoch") - known).alias("epochs_burned"), (at_heal - known).alias("epochs_burned_until_heal"))
        .withColumn("epochs_per_minute", timeline.per(fn.col("epochs_burned"), MINUTE_NS))
    )
    units = {"epochs_burned": "epochs", "epochs_per_minute": "epochs/min", "epochs_burned_until_heal": "epochs"}
    return quantities_of(row, CHECK, units)


def leaders(observations: DataFrame, timeline: Timeline) -> DataFrame:
    """Leaders since the mark, and whether the leader at the mark was replaced."""
    later = fn.col("since_ns") > timeline.story_ns
    at_heal = later & timeline.until_heal(fn.col("since_ns"))
    counted = (
        leaderships(observations)
        .groupBy(RUN)
        .agg(
            fn.sum(later.cast("int")).alias("leader_changes"),
            fn.sum(at_heal.cast("int")).alias("leader_changes_until_heal"),
            fn.sum((~later).cast("int")).alias("led_before"),
        )
    )
    changes = fn.col("leader_changes")
    row = counted.select(
        RUN,
        changes,
        "leader_changes_until_heal",
        timeline.per(changes, MINUTE_NS).alias("leader_changes_per_minute"),
        fn.when(fn.col("led_before") > 0, (changes > 0).cast("int")).alias("leader_deposed"),
    )
    units = {
        "leader_changes": "changes",
        "leader_changes_until_heal": "changes",
        "leader_changes_per_minute": "changes/min",
        "leader_deposed": "leaders",
    }
    return quantities_of(row, CHECK, units)


def tenures(observations: DataFrame, timeline: Timeline) -> DataFrame:
    """(run, node, epoch, begin, finish): when each node led an epoch, cut to the time from the story's mark on."""
    seen = observations.where(fn.col("kind").isin("transition", "started", *ENDS))
    in_order = Window.partitionBy(RUN, "node").orderBy(*IN_ORDER)
    left = fn.coalesce(fn.lead("time_ns").over(in_order), timeline.end_ns)
    leads = (fn.col("kind") == "transition") & (fn.col("state") == State.LEADER.value)
    by_state = seen.withColumn("left", left).where(leads).select(RUN, "node", "epoch", "time_ns", "left")
    claims = observations.where(fn.col("kind") == "claim")
    by_claim = claims.select(RUN, "node", "epoch", "time_ns", fn.col("time_ns").alias("left"))
    led = by_state.unionAll(by_claim).groupBy(RUN, "node", "epoch")
    begin = fn.greatest(fn.min("time_ns"), timeline.story_ns).alias("begin")
    return led.agg(begin, fn.max("left").alias("finish")).where("finish >= begin")


def overlap(led: DataFrame) -> DataFrame:
    """How long a node led while another led a higher epoch; left out if no leader was observed."""
    old, new = led.alias("old"), led.alias("new")
    shared = fn.least("old.finish", "new.finish") - fn.greatest("old.begin", "new.begin")
    is_pair = (
        (fn.col("old.run") == fn.col("new.run"))
        & (fn.col("old.node") != fn.col("new.node"))
        & (fn.col("old.epoch") < fn.col("new.epoch"))
    )
    # A leader without such a pair has no partner, and least() skips nulls.
    length = fn.when(fn.col("new.node").isNull(), 0).otherwise(fn.greatest(shared, fn.lit(0)))
    pairs = old.join(new, on=is_pair, how="left").select("old.run", length.alias("ns"))
    return quantities_of(
        pairs.groupBy(RUN).agg((fn.max("ns") / MS_NS).alias("two_leaders_ms")), CHECK, {"two_leaders_ms": "ms"}
    )


def leaderless(led: DataFrame, timeline: Timeline) -> DataFrame:
    """The time since the mark in which no node led: the gaps before, between and after tenures."""
    before = Window.partitionBy(RUN).orderBy("begin", "finish").rowsBetween(Window.unboundedPreceding, -1)
    covered = fn.coalesce(fn.max("finish").over(before), timeline.story_ns)
    gaps = led.select(RUN, "finish", fn.greatest(fn.col("begin") - covered, fn.lit(0)).alias("gap"))
    row = gaps.groupBy(RUN).agg(((fn.sum("gap") + timeline.end_ns - fn.max("finish")) / MS_NS).alias("no_leader_ms"))
    return quantities_of(row, CHECK, {"no_leader_ms": "ms"})


def rises(observations: DataFrame) -> DataFrame:
    """(run, time_ns): the times at which the highest claimed high watermark rose."""
    claims = observations.where((fn.col("kind") == "claim") & (fn.col("high_watermark") >= 0))
    before = Window.partitionBy(RUN).orderBy(*IN_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    higher = claims.withColumn("before", fn.max("high_watermark").over(before))
    return higher.where("before is null or high_watermark > before").select(RUN, "time_ns")


def commits(observations: DataFrame, timeline: Timeline) -> DataFrame:
    """The longest time without a rise of the high watermark; left out if none was claimed."""
    rose = rises(observations)
    since = fn.greatest(fn.lag("time_ns").over(Window.partitionBy(RUN).orderBy("time_ns")), timeline.story_ns)
    gaps = rose.select(RUN, "time_ns", (fn.col("time_ns") - since).alias("gap"))
    tail = timeline.end_ns - fn.greatest(fn.max("time_ns"), timeline.story_ns)
    row = gaps.groupBy(RUN).agg(
        fn.when(fn.count("*") > 0, fn.greatest(fn.max("gap"), tail) / MS_NS).alias("commit_gap_ms")
    )
    return quantities_of(row, CHECK, {"commit_gap_ms": "ms"})


def recovery(observations: DataFrame, timeline: Timeline) -> DataFrame:
    """The time from the last heal until the high watermark rose or, if no high watermark was claimed, until a node led
    or claimed to lead."""
    rose = rises(observations).select(RUN, "time_ns", fn.lit(True).alias("is_rise"))
    without_mark = observations.where("kind = 'claim' and high_watermark is null")
    led = (
        leaderships(observations)
        .select(RUN, "since_ns", fn.lit(False))
        .unionAll(without_mark.select(RUN, "time_ns", fn.lit(False)))
    )
    is_rise, time_ns = fn.col("is_rise"), fn.col("time_ns")
    back = fn.when(fn.max("is_rise"), timeline.after_heal(fn.when(is_rise, time_ns))).otherwise(
        timeline.after_heal(time_ns)
    )
    seen = rose.unionAll(led).groupBy(RUN).agg(back.alias("back_ns"), fn.count("*").alias("seen"))
    is_known = (fn.col("seen") > 0) & timeline.healed_ns.isNotNull()
    row = seen.select(
        RUN,
        fn.when(is_known, fn.col("back_ns").isNotNull().cast("int")).alias("recovered"),
        ((fn.col("back_ns") - timeline.healed_ns) / MS_NS).alias("recover_ms"),
    )
    return quantities_of(row, CHECK, {"recovered": "runs", "recover_ms": "ms"})


QUORUM_CHECK = Check(
    safety.findings,
    quantities,
    reads=("history", "observations", "batches"),
    judges="observation",
    handles_many_runs=True,
    reads_rules=True,
)
