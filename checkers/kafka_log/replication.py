"""Whether a partition's replicas hold what their leader has, from the batches on their disks and the brokers' logs.

    log-hole                    a log has every offset between its first and its last
    replication-stuck           a follower can append what its leader sends (KAFKA-6361, KIP-279)

    partitions_compared, partitions_with_equal_logs
                                users' partitions with several logs, and those whose logs consist of the same batches
    log_end_max                 the end of the longest log of a user's partition
    truncation_rounds_max       the most answers about leader epochs that a follower needed until it knew where to
                                truncate a user's partition (KIP-279: one after a clean leader change)
    partition_offline_ms        how long a user's partition had no leader in all, of the partition with the most

These, with `diverged-logs` (checkers/kafka_log/divergence.py), are the ways in which KIP-279's truncation ends.

Followers append whole batches of their leader. So if a log ends inside a batch of another log, the two differ before
that end, and a fetch from there returns a batch that the follower cannot append. At rest alone that proves nothing: the
follower may truncate when it fetches next. It is stuck if its broker has logged that it could not append what it
fetched from that very offset, where its log still ends.

Compaction removes records, and a follower copies the holes of a compacted log. What any replica's cleaner has passed
(`cleaner-offset-checkpoint`) is therefore not judged. Control batches have offsets as all others do.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.framework.contract import JudgeSettings, finding, quantities_of

PLACE = (RUN, "topic", "partition")
VERSION = ("base_offset", "last_offset", "leader_epoch", "crc")
TRUNCATION = (
    r"^Truncating partition (\S+) with TruncationState\(offset=\d+, completed=(true|false)\) due to leader epoch"
)
"""A fetcher's line about an answer of its leader. If it is not completed, the fetcher asks about an earlier epoch."""

OF_FAILED_FETCH = "topic string, partition int, offset bigint"
"""The schema of the detail of an observation of kind `fetch-failed`."""

OF_PARTITION = "topic string, partition int, leader int, epoch int"
"""The schema of the detail of an observation of kind `partition`, without the in-sync replicas."""

MS_NS = 1_000_000


def cleaned_to() -> Column:
    """The offset below which a cleaner may have removed records of the row's partition, on any node; 0 if none has."""
    return fn.coalesce(fn.max("cleaned_to").over(Window.partitionBy(*PLACE)), fn.lit(0))


def place() -> Column:
    """The partition's name, e.g. t-0."""
    return fn.concat_ws("-", "topic", "partition")


def log_holes(batches: DataFrame, check: str) -> DataFrame:
    """Each intact batch that does not follow the offsets before it in its log."""
    log = Window.partitionBy(*PLACE, "node").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    placed = batches.withColumn("expected", fn.max("last_offset").over(log) + 1).withColumn("cleaned", cleaned_to())
    holes = placed.where("intact and base_offset > expected and base_offset > cleaned")
    text = "a log has every offset between its first and its last: node %d lacks offsets %d to %d, before epoch %d"
    message = fn.format_string(text, "node", "expected", fn.col("base_offset") - 1, "leader_epoch")
    return finding(holes, check, "log-hole", message, key=place(), node=fn.col("node"))


def replication_stuck(batches: DataFrame, observations: DataFrame, check: str) -> DataFrame:
    """Logs that end, inside a batch of another log, where their broker last failed to append what it fetched."""
    ends = batches.groupBy(*PLACE, "node").agg((fn.max("last_offset") + 1).alias("offset"))
    stopped = last_failed_fetches(observations).join(ends, on=[*PLACE, "node", "offset"], how="inner")
    judged = batches.withColumn("cleaned", cleaned_to()).where("base_offset >= cleaned")
    other = judged.select(*PLACE, fn.struct("node", "base_offset", "last_offset", "leader_epoch").alias("other"))
    inside = (fn.col("other.node") != fn.col("node")) & (fn.col("other.base_offset") < fn.col("offset"))
    split = stopped.join(other, on=list(PLACE), how="inner").where(
        inside & (fn.col("offset") <= fn.col("other.last_offset"))
    )
    stuck = split.groupBy(*PLACE, "node", "offset", "time_ns").agg(fn.min("other").alias("other"))
    text = (
        "a follower can append what its leader sends: the log of node %d ends at %d, inside node %d's batch of offsets "
        "%d to %d (epoch %d), and its fetcher failed there"
    )
    batch = [f"other.{name}" for name in ("node", "base_offset", "last_offset", "leader_epoch")]
    message = fn.format_string(text, "node", "offset", *batch)
    name = "replication-stuck"
    return finding(stuck, check, name, message, key=place(), node=fn.col("node"), time_ns=fn.col("time_ns"))


def last_failed_fetches(observations: DataFrame) -> DataFrame:
    """(run, topic, partition, node, offset, time_ns): the last fetch of each log that its broker could not append."""
    failed = observations.where(fn.col("kind") == "fetch-failed")
    placed = failed.withColumn("of", fn.from_json("detail", OF_FAILED_FETCH)).select(RUN, "of.*", "node", "time_ns")
    last = fn.max(fn.struct("time_ns", "offset")).alias("last")
    return placed.groupBy(*PLACE, "node").agg(last).select(*PLACE, "node", "last.offset", "last.time_ns")


def quantities(batches: DataFrame, observations: DataFrame, settings: JudgeSettings, check: str) -> DataFrame:  # noqa: ARG001
    """How many partitions have equal logs, the rounds of truncations, and the time without a leader; none without a
    user's partition."""
    of_logs = partitions_compared(batches, check).unionAll(truncation_rounds(observations, check))
    return of_logs.unionAll(partition_offline(observations, check))


def partitions_compared(batches: DataFrame, check: str) -> DataFrame:
    """How many of users' partitions have several logs, and how many of these have equal ones."""
    users = batches.where(~fn.col("topic").startswith("__"))
    log, partition = Window.partitionBy(*PLACE, "node"), Window.partitionBy(*PLACE)
    start = fn.greatest(fn.max("first").over(partition), "cleaned")
    covered = (
        users.withColumn("first", fn.min("base_offset").over(log))
        .withColumn("cleaned", cleaned_to())
        .withColumn("start", start)
        .withColumn("nodes", fn.size(fn.collect_set("node").over(partition)))
    )
    versions = covered.groupBy(*PLACE, "nodes", "start", *VERSION).agg(
        fn.size(fn.collect_set("node")).alias("holders"), fn.min("intact").alias("is_intact")
    )
    is_shared = (fn.col("holders") == fn.col("nodes")) & fn.col("is_intact")
    is_judged = fn.col("base_offset") >= fn.col("start")
    partitions = versions.groupBy(*PLACE, "nodes").agg(fn.min(~is_judged | is_shared).alias("is_equal"))
    row = (
        partitions.where("nodes > 1")
        .groupBy(RUN)
        .agg(fn.count("*").alias("partitions_compared"), fn.count_if("is_equal").alias("partitions_with_equal_logs"))
    )
    units = dict.fromkeys(("partitions_compared", "partitions_with_equal_logs"), "partitions")
    ends = users.groupBy(RUN).agg((fn.max("last_offset") + 1).alias("log_end_max"))
    longest = quantities_of(ends, check, {"log_end_max": "offsets"})
    return quantities_of(row.where("partitions_compared > 0"), check, units).unionAll(longest)


def partition_offline(observations: DataFrame, check: str) -> DataFrame:
    """The longest time that a partition had no leader, as far as brokers were told; none if no partition was observed.

    A leader epoch in which no broker knew a leader lasts until a broker knows a later one, or until the run ends.
    """
    seen = observations.where(fn.col("kind") == "partition").withColumn("of", fn.from_json("detail", OF_PARTITION))
    epochs = seen.groupBy(RUN, "of.topic", "of.partition", "of.epoch").agg(
        fn.min("time_ns").alias("begin"), fn.count("of.leader").alias("leaders")
    )
    ended = epochs.join(observations.groupBy(RUN).agg(fn.max("time_ns").alias("last")), on=RUN, how="inner")
    until = fn.coalesce(fn.lead("begin").over(Window.partitionBy(*PLACE).orderBy("epoch")), fn.col("last"))
    lasted = fn.when(fn.col("leaders") == 0, fn.greatest(until - fn.col("begin"), fn.lit(0))).otherwise(0)
    of_each = ended.withColumn("offline", lasted).groupBy(*PLACE).agg((fn.sum("offline") / MS_NS).alias("offline"))
    row = (
        of_each.groupBy(RUN)
        .agg(fn.max("offline").alias("partition_offline_ms"))
        .where("partition_offline_ms is not null")
    )
    return quantities_of(row, check, {"partition_offline_ms": "ms"})


def truncation_rounds(observations: DataFrame, check: str) -> DataFrame:
    """The most answers in a row of which only the last completed a truncation; none without a truncation."""
    partition, is_last = (fn.regexp_extract("detail", TRUNCATION, group) for group in (1, 2))
    answers = observations.where((fn.col("kind") == "note") & fn.col("detail").rlike(TRUNCATION)).select(
        RUN, "node", "time_ns", "position", partition.alias("of"), (is_last == "true").cast("int").alias("is_last")
    )
    before = (
        Window.partitionBy(RUN, "node", "of").orderBy("time_ns", "position").rowsBetween(Window.unboundedPreceding, -1)
    )
    numbered = answers.withColumn("truncation", fn.coalesce(fn.sum("is_last").over(before), fn.lit(0)))
    rounds = numbered.groupBy(RUN, "node", "of", "truncation").agg(fn.count("*").alias("rounds"))
    row = rounds.groupBy(RUN).agg(fn.max("rounds").alias("truncation_rounds_max"))
    return quantities_of(row, check, {"truncation_rounds_max": "answers"})
