"""Whether the replicas' logs are one log, from the batches on their disks (KIP-279, KIP-595, Raft's figure 3).

    diverged-logs               Log Matching: two logs with a batch of the same offset and leader epoch are equal up to
                                and including it; this holds at any time, whatever was truncated or killed
    committed-record-missing    every offset below the highest high watermark that any leader claimed is held, in one
                                version, by a majority of the voters' logs
    leader-epoch-went-back      leader epochs never decrease along a log
    checkpoint-disagrees        a node's leader-epoch-checkpoint gives each batch its epoch (KIP-101)
    truncated-below-high-watermark
                                an offset below a high watermark that any broker had stored is held, in the epoch that
                                it had, by the log with the highest epoch there: no later leader lacked it
    voter-sets-apart, voter-changes-uncommitted
                                voters change one at a time (checkers/kafka_log/voter_sets.py)
    stale-voters, elected-without-majority
                                the voters in a leader's log elected it (the same module)
    log-hole, replication-stuck
                                a replica holds what its leader has (checkers/kafka_log/replication.py)
    corrupt-batch               a stored batch has the checksum in its header
    diverging-tail (tolerated)  a log ends in batches that differ from another log below the high watermark, and the two
                                have nothing in common after them: a later fetch must truncate one; until then Raft
                                allows it
    no-batches (unknown)        no log was kept

    committed_offsets_lost      how many offsets below the high watermarks that brokers had stored the latest log of
                                each user's partition lacks, or has in another epoch: the size of
                                truncated-below-high-watermark

The version of an offset is its batch: (base offset, last offset, leader epoch, checksum). Followers copy a leader's
batches whole, so batches are not expanded into records; the checksum does not cover the leader epoch, hence both. If a
log starts above 0, a snapshot covers the offsets below: they are not compared, and count as held in any version. What a
cleaner may have compacted on any node is not compared either.

A broker's high watermark may go back: a new leader's lags behind its predecessor's (KIP-207), and a follower's never
exceeds the end of its log. What was once below it stays nevertheless. If a later leader lacks it, or all logs end
before it, committed records were lost, by an unclean election, a lost disk or an excessive truncation (KIP-101,
KIP-279). Nothing excuses that. The leader epoch of the last offset below the high watermark shows it, since a later
leader's record there has a higher one; times need not be compared, and a truncation that a later fetch repaired is no
violation. If a log starts above the offset, retention may have deleted it, and the rule is silent; so it is if no log
was kept.

Contains rules on logs at rest. Rules on what nodes did while the quorum ran are in checkers/quorum.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN, missing
from checkers.framework.contract import Check, JudgeSettings, finding, quantities_of
from checkers.kafka_log import replication
from checkers.kafka_log.voter_sets import changes_uncommitted, elections, sets_apart
from checkers.quorum.voters import QUORUM, is_of_quorum, reported_voters, set_of_batch

CHECK = "divergence"
PLACE = (RUN, "topic", "partition")
PAIR = (*PLACE, "left", "right")
VERSION = (*PLACE, "base_offset", "last_offset", "leader_epoch", "crc")
OF_COMMITTED = "topic string, partition int, epoch int, start long"
"""The schema of the detail of an observation of kind `committed`; earlier runs have no start."""


def findings(batches: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:
    """Every violated rule, tails yet to be truncated, and whether any log was kept."""
    # Several rules use this row, which Spark would compute for each of them.
    row = committed_state(batches, observations).toArrow()
    committed = batches.sparkSession.createDataFrame(row).coalesce(1)
    rules = [
        diverged_logs(batches, committed),
        committed_records_missing(batches, committed),
        leader_epoch_went_back(batches),
        checkpoint_disagrees(batches),
        truncated_below_high_watermark(batches, observations),
        sets_apart(batches, CHECK),
        changes_uncommitted(batches, observations, CHECK),
        elections(batches, CHECK),
        replication.log_holes(batches, CHECK),
        replication.replication_stuck(batches, observations, CHECK),
        corrupt_batches(batches),
        no_batches(batches, settings),
    ]
    return reduce(DataFrame.unionAll, rules)


def no_batches(batches: DataFrame, settings: JudgeSettings) -> DataFrame:
    """One unknown if no batch was kept."""
    none = missing(batches, settings)
    return finding(none, CHECK, "no-batches", fn.lit("no batch of any node's log was kept"), severity="unknown")


def committed_state(batches: DataFrame, observations: DataFrame) -> DataFrame:
    """(run, topic, partition, high_watermark, voters): one row for the quorum's log; none where no log of a voter was
    kept.

    high_watermark is the highest that any leader claimed: all offsets below it are committed. voters is the voter set
    that was committed last below it. That set comes from the log that has the committed version of the last offset,
    which is the one with the highest epoch there: records of other voter sets may never have been committed. Without
    such a record it is the set that leaders reported, and no row if they reported several, since either may be the
    committed one; without reports it is all nodes.
    """
    is_claim = fn.col("kind") == "claim"
    seen = observations.groupBy(RUN).agg(
        fn.max(fn.when(is_claim & (fn.col("high_watermark") > 0), fn.col("high_watermark"))).alias("high_watermark"),
        fn.collect_set(fn.when(is_claim, reported_voters())).alias("reported"),
        fn.collect_set("node").alias("observed"),
    )
    last = fn.col("high_watermark") - 1
    covers_last = is_of_quorum() & last.between(fn.col("base_offset"), fn.col("last_offset"))
    is_set = is_of_quorum() & fn.col("voters").isNotNull() & (fn.col("base_offset") <= last)
    logs = (
        batches.join(seen.select(RUN, "high_watermark"), on=RUN, how="inner")
        .groupBy(RUN, "node")
        .agg(
            fn.max(fn.when(covers_last, fn.col("leader_epoch"))).alias("epoch_at_last"),
            fn.max(fn.when(is_set, fn.struct("base_offset", set_of_batch().alias("voters")))).alias("last_set"),
        )
    )
    logged = logs.groupBy(RUN).agg(
        fn.max(fn.struct("epoch_at_last", "last_set")).alias("committed"), fn.collect_set("node").alias("logged")
    )
    reported = fn.when(fn.size("reported") == 1, fn.element_at("reported", 1))
    everyone = fn.when(fn.size("reported") == 0, fn.array_union("observed", "logged"))
    voters = fn.coalesce(fn.col("committed.last_set.voters"), reported, everyone)
    row = seen.join(logged, on=RUN, how="inner").withColumn("voters", voters)
    known = row.where(fn.col("high_watermark").isNotNull() & fn.arrays_overlap("voters", "logged"))
    topic, partition = (fn.lit(value).alias(name) for value, name in zip(QUORUM, PLACE[1:], strict=True))
    return known.select(RUN, topic, partition, "high_watermark", "voters")


def starts(batches: DataFrame) -> DataFrame:
    """(run, topic, partition, node, start, end): where each log starts, above 0 behind a snapshot or behind what was
    compacted, and where it ends."""
    first, end = fn.min("base_offset").alias("first"), (fn.max("last_offset") + 1).alias("end")
    logs = batches.groupBy(*PLACE, "node").agg(first, end, fn.max("cleaned_to").alias("cleaned_to"))
    return logs.select(*PLACE, "node", fn.greatest("first", replication.cleaned_to()).alias("start"), "end")


def differences(batches: DataFrame) -> DataFrame:
    """Pairs of logs that differ in the range that both cover: `first`, the first difference, with both logs' batches
    there, and `agreed`, the highest offset at which both have a batch of the same epoch."""
    node, batch = fn.col("node"), fn.struct("leader_epoch", "last_offset", "crc")
    shared = batches.join(pairs(batches), on=list(PLACE), how="inner").where(
        node.isin(fn.col("left"), fn.col("right")) & fn.col("base_offset").between(fn.col("from"), fn.col("until") - 1)
    )
    side_by_side = shared.groupBy(*PAIR, "base_offset").agg(
        fn.max(fn.when(node == fn.col("left"), batch)).alias("left_batch"),
        fn.max(fn.when(node == fn.col("right"), batch)).alias("right_batch"),
    )
    is_equal = fn.col("left_batch").eqNullSafe(fn.col("right_batch"))
    is_agreed = fn.col("left_batch.leader_epoch") == fn.col("right_batch.leader_epoch")
    difference_here = fn.struct("base_offset", "left_batch", "right_batch")
    compared = side_by_side.groupBy(*PAIR).agg(
        fn.min(fn.when(~is_equal, difference_here)).alias("first"),
        fn.max(fn.when(is_agreed, fn.col("base_offset"))).alias("agreed"),
    )
    return compared.where("first is not null").select(*PAIR, "first", "agreed")


def pairs(batches: DataFrame) -> DataFrame:
    """(run, topic, partition, left, right, from, until): pairs of logs of a partition, the range that both cover."""
    left, right = starts(batches).alias("a"), starts(batches).alias("b")
    same_place = [fn.col(f"a.{name}") == fn.col(f"b.{name}") for name in PLACE]
    both = left.join(right, on=[*same_place, fn.col("a.node") < fn.col("b.node")], how="inner")
    return both.select(
        *(f"a.{name}" for name in PLACE),
        fn.col("a.node").alias("left"),
        fn.col("b.node").alias("right"),
        fn.greatest("a.start", "b.start").alias("from"),
        fn.least("a.end", "b.end").alias("until"),
    )


def diverged_logs(batches: DataFrame, committed: DataFrame) -> DataFrame:
    """Pairs of logs that differ at or below an offset on whose epoch they agree; and, tolerated, pairs that differ
    below the high watermark and agree nowhere after that. The message names the first difference."""
    parted = differences(batches).join(committed, on=list(PLACE), how="left")
    is_broken = fn.coalesce(fn.col("agreed") >= fn.col("first.base_offset"), fn.lit(False))
    found = parted.where(is_broken | (fn.col("first.base_offset") < fn.col("high_watermark")))
    agreeing = "logs that agree on an offset's epoch are equal up to it: nodes %d and %d agree at offset %d, but %s"
    uncut = "a log's tail differs from what is committed there, and a later fetch must truncate it: %s"
    broken_message = fn.format_string(agreeing, "left", "right", "agreed", difference())
    message = fn.when(is_broken, broken_message).otherwise(fn.format_string(uncut, difference()))
    name = fn.when(is_broken, "diverged-logs").otherwise("diverging-tail")
    severity = fn.when(is_broken, "invalid").otherwise("tolerated")
    return finding(found, CHECK, name, message, severity=severity, key=place())


def difference() -> Column:
    """The first difference of a pair of logs, in words."""
    first, sides = fn.col("first"), (fn.col("first.left_batch"), fn.col("first.right_batch"))
    left, right = (
        fn.when(side.isNull(), "no batch").otherwise(
            fn.format_string("epoch %d up to offset %d (crc %d)", side.leader_epoch, side.last_offset, side.crc)
        )
        for side in sides
    )
    return fn.format_string("at offset %d node %d has %s, node %d %s", first.base_offset, "left", left, "right", right)


def place() -> Column:
    """The partition's name, e.g. `__cluster_metadata-0`."""
    return fn.concat_ws("-", "topic", "partition")


def committed_records_missing(batches: DataFrame, committed: DataFrame) -> DataFrame:
    """Each range of offsets below the high watermark that no majority of the voters holds in one version."""
    text = "committed records are on a majority: the high watermark was %d, and of %d voters fewer than %d hold %s"
    offsets = fn.format_string("offsets %d to %d in one version", "begin", "last")
    message = fn.format_string(text, "high_watermark", fn.size("voters"), majority(), offsets)
    missing = missing_offsets(batches, committed)
    return finding(missing, CHECK, "committed-record-missing", message, key=place())


def missing_offsets(batches: DataFrame, committed: DataFrame) -> DataFrame:
    """committed's rows with begin and last, inclusive, of each such range."""
    voters = committed.select(*PLACE, fn.explode("voters").alias("node"))
    logs = batches.join(voters, on=[*PLACE, "node"], how="inner").select(*batches.columns)
    end = committed.select(*PLACE, fn.col("high_watermark").alias("base_offset"), "high_watermark")
    held = kept_batches(logs, committed).unionAll(kept_snapshots(logs, committed)).unionAll(end)
    before = Window.partitionBy(*PLACE).orderBy("base_offset", "last_offset").rowsBetween(Window.unboundedPreceding, -1)
    gaps = held.select(
        *PLACE,
        (fn.coalesce(fn.max("last_offset").over(before), fn.lit(-1)) + 1).alias("begin"),
        (fn.col("base_offset") - 1).alias("last"),
    )
    known = gaps.join(committed, on=list(PLACE), how="inner")
    return known.withColumn("last", fn.least("last", fn.col("high_watermark") - 1)).where("begin <= last")


def kept_batches(logs: DataFrame, committed: DataFrame) -> DataFrame:
    """(run, topic, partition, base_offset, last_offset) of batches that a majority holds, in log or snapshot."""
    versions = logs.where("intact").groupBy(*VERSION).agg(fn.size(fn.collect_set("node")).alias("logs"))
    snapshots = starts(logs).where("start > 0").select(*PLACE, "node", "start")
    spans = [*(fn.col(f"v.{name}") == fn.col(f"s.{name}") for name in PLACE), fn.col("s.start") > fn.col("last_offset")]
    covered = versions.alias("v").join(snapshots.alias("s"), on=spans, how="left")
    counted = covered.groupBy(*(f"v.{name}" for name in VERSION), "logs").agg(fn.count("s.node").alias("snapshots"))
    held = counted.join(committed, on=list(PLACE), how="inner").where(
        fn.col("logs") + fn.col("snapshots") >= majority()
    )
    return held.select(*PLACE, "base_offset", "last_offset")


def kept_snapshots(logs: DataFrame, committed: DataFrame) -> DataFrame:
    """(run, topic, partition, base_offset, last_offset) of the range that a majority has in snapshots."""
    highest_first = Window.partitionBy(*PLACE).orderBy(fn.col("start").desc(), "node")
    ranked = starts(logs).withColumn("rank", fn.row_number().over(highest_first))
    common = ranked.join(committed, on=list(PLACE), how="inner").where(
        (fn.col("rank") == majority()) & (fn.col("start") > 0)
    )
    return common.select(*PLACE, fn.lit(0).alias("base_offset"), (fn.col("start") - 1).alias("last_offset"))


def majority() -> Column:
    """The size of the smallest majority of the voters."""
    return fn.floor(fn.size("voters") / 2) + 1


def leader_epoch_went_back(batches: DataFrame) -> DataFrame:
    """Batches of a lower epoch than the one before them in their log."""
    in_order = Window.partitionBy(*PLACE, "node").orderBy("position")
    lower = batches.withColumn("before", fn.lag("leader_epoch").over(in_order)).where("leader_epoch < before")
    text = "leader epochs never decrease along a log: at offset %d node %d has epoch %d behind epoch %d"
    message = fn.format_string(text, "base_offset", "node", "leader_epoch", "before")
    return finding(lower, CHECK, "leader-epoch-went-back", message, key=place(), node=fn.col("node"))


def checkpoint_disagrees(batches: DataFrame) -> DataFrame:
    """The first intact batch of each log whose epoch differs from the one in the node's checkpoint."""
    wrong = batches.where(fn.col("intact") & (fn.col("checkpoint_epoch") != fn.col("leader_epoch")))
    in_order = Window.partitionBy(*PLACE, "node").orderBy("base_offset", "position")
    first = wrong.withColumn("rank", fn.row_number().over(in_order)).where("rank = 1")
    text = "a leader-epoch-checkpoint agrees with its log: at offset %d node %d has epoch %d, its checkpoint has %s"
    stored = fn.when(fn.col("checkpoint_epoch") < 0, "none").otherwise(fn.col("checkpoint_epoch").cast("string"))
    message = fn.format_string(text, "base_offset", "node", "leader_epoch", stored)
    return finding(first, CHECK, "checkpoint-disagrees", message, key=place(), node=fn.col("node"))


def truncated_below_high_watermark(batches: DataFrame, observations: DataFrame) -> DataFrame:
    """Stored high watermarks whose last offset now has another epoch or no record: the highest of each epoch."""
    stored = stored_high_watermarks(observations)
    last = fn.col("high_watermark") - 1
    epoch_there = fn.when(last.between(fn.col("base_offset"), fn.col("last_offset")), fn.col("leader_epoch"))
    of_log = (
        batches.join(stored, on=list(PLACE), how="inner")
        .groupBy(*stored.columns, "node")
        .agg(
            fn.max(epoch_there).alias("found"),
            fn.greatest(fn.min("base_offset"), fn.max("cleaned_to")).alias("start"),
            (fn.max("last_offset") + 1).alias("end"),
        )
    )
    of_logs = of_log.groupBy(*stored.columns).agg(*(fn.max(name).alias(name) for name in ("found", "start", "end")))
    lost = of_logs.where("coalesce(found, -1) != epoch and start < high_watermark")
    another = fn.format_string("offset %d is of epoch %d", last, "found")
    missing = fn.format_string("no log has offset %d, the longest ends at %d", last, "end")
    text = "records below a high watermark stay in the log: node %d had stored %d, in epoch %d, and now %s"
    now = fn.when(fn.col("found").isNull(), missing).otherwise(another)
    message = fn.format_string(text, "broker", "high_watermark", "epoch", now)
    name = "truncated-below-high-watermark"
    return finding(lost, CHECK, name, message, key=place(), node=fn.col("broker"), time_ns=fn.col("time_ns"))


def stored_high_watermarks(observations: DataFrame) -> DataFrame:
    """(run, topic, partition, epoch, high_watermark, epoch_start, broker, time_ns): for each epoch the highest stored
    high watermark whose last offset has that epoch, the epoch's first offset (null in earlier runs), and the broker
    that stored it first. By Log Matching it covers the lower ones."""
    seen = observations.where(fn.col("kind") == "committed").withColumn("of", fn.from_json("detail", OF_COMMITTED))
    stored = seen.select(RUN, "of.*", (-fn.col("high_watermark")).alias("below"), "time_ns", "node")
    highest = stored.groupBy(*PLACE, "epoch").agg(fn.min(fn.struct("below", "time_ns", "node", "start")).alias("first"))
    first, mark = fn.col("first"), (-fn.col("first.below")).alias("high_watermark")
    broker, time_ns = first.node.alias("broker"), first.time_ns.alias("time_ns")
    return highest.select(*PLACE, "epoch", mark, first.start.alias("epoch_start"), broker, time_ns)


def committed_offsets_lost(batches: DataFrame, observations: DataFrame) -> DataFrame:
    """How many offsets below stored high watermarks the latest logs lack in the epoch that they had; none if no high
    watermark of a log was stored.

    The latest log is the one that ends in the highest epoch, and the longest of these, as elections compare logs. What
    it does not cover because it starts later counts as held. Earlier runs do not say where an epoch begins: there its
    offsets may have an earlier epoch, and only the epoch counts that lost most.
    """
    logs = batches.groupBy(*PLACE, "node").agg(
        fn.max("leader_epoch").alias("epoch"), fn.max("last_offset").alias("last")
    )
    latest = logs.groupBy(*PLACE).agg(fn.max(fn.struct("epoch", "last", "node")).alias("of"))
    of_latest = batches.join(latest.select(*PLACE, fn.col("of.node").alias("node")), on=[*PLACE, "node"], how="inner")
    stored = stored_high_watermarks(observations).select(*PLACE, "epoch", "high_watermark", "epoch_start")
    begins = of_latest.groupBy(*PLACE).agg(fn.greatest(fn.min("base_offset"), fn.max("cleaned_to")).alias("log_start"))
    known = stored.join(begins, on=list(PLACE), how="inner").withColumn(
        "begin", fn.greatest(fn.coalesce("epoch_start", fn.lit(0)), "log_start")
    )
    has_start, of_epoch = fn.col("epoch_start").isNotNull(), fn.col("epoch")
    is_held = (fn.col("leader_epoch") == of_epoch) | (~has_start & (fn.col("leader_epoch") < of_epoch))
    overlap = fn.least(fn.col("last_offset") + 1, "high_watermark") - fn.greatest("base_offset", "begin")
    held = fn.sum(fn.when(is_held & (overlap > 0), overlap).otherwise(0))
    expected = fn.greatest(fn.col("high_watermark") - fn.col("begin"), fn.lit(0))
    by_epoch = (
        of_latest.join(known, on=list(PLACE), how="inner")
        .groupBy(*known.columns)
        .agg(held.alias("held"))
        .withColumn("lost", fn.greatest(expected - fn.col("held"), fn.lit(0)))
    )
    by_start, most_without = fn.sum(fn.when(has_start, fn.col("lost"))), fn.max(fn.when(~has_start, fn.col("lost")))
    lost = fn.coalesce(by_start, fn.lit(0)) + fn.coalesce(most_without, fn.lit(0))
    row = by_epoch.groupBy(*PLACE).agg(lost.alias("lost"))
    row = row.groupBy(RUN).agg(fn.sum("lost").alias("committed_offsets_lost"))
    measured = row.where("committed_offsets_lost is not null")
    return quantities_of(measured, CHECK, {"committed_offsets_lost": "offsets"})


def quantities(batches: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:
    """What is measured of users' partitions: their replicas, truncations, and the committed offsets that were lost."""
    of_replicas = replication.quantities(batches, observations, settings, CHECK)
    return of_replicas.unionAll(committed_offsets_lost(batches, observations))


def corrupt_batches(batches: DataFrame) -> DataFrame:
    """Batches whose bytes do not match the checksum in their header."""
    text = "a stored batch matches its checksum: node %d's at offsets %d to %d, of epoch %d, does not (crc %d)"
    message = fn.format_string(text, "node", "base_offset", "last_offset", "leader_epoch", "crc")
    corrupt = batches.where(~fn.col("intact"))
    return finding(corrupt, CHECK, "corrupt-batch", message, key=place(), node=fn.col("node"))


DIVERGENCE = Check(
    findings,
    quantities,
    reads=("batches", "observations"),
    judges="record batch",
    handles_many_runs=True,
)
