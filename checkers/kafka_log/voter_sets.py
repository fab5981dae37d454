"""Whether the quorum's voters changed one at a time and elected its leaders, from the nodes' logs (KIP-853, KIP-642).

    voter-sets-apart             two consecutive voter sets of a log differ by at most one voter, so that any majority
                                 of one meets any majority of the other
    voter-changes-uncommitted    a leader's log has at most one voter set at or above its high watermark: a change waits
                                 until the previous one is committed

    stale-voters                 a leader counts the votes of the last voter set in its log: the LeaderChange record
                                 that begins its epoch names that set (KIP-853)
    elected-without-majority     a majority of that set granted the leader their votes; without a set in the log, a
                                 majority of the voters that LeaderChange names (KIP-595)

A log's first set has no predecessor, and an election before it is compared with no set. A record with the same voters
as the one before, as KIP-642 writes for a new target, is no change. The second rule compares logs at rest with what
their owners claimed as leaders. It sees only the part of a leader's log that was not truncated later, so it may miss a
violation and never reports a false one.

Contains rules on voter sets. checkers/quorum/voters.py derives who votes.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.framework.contract import finding
from checkers.quorum.voters import is_of_quorum, logged_voter_sets, set_of_batch

ELECTION = "leader int, voters array<int>, granting array<int>"
"""The schema of harness.model.records.logged_batch.LoggedBatch.election."""


def sets_apart(batches: DataFrame, check: str) -> DataFrame:
    """Consecutive voter sets of a log that differ by more than one voter."""
    in_order = Window.partitionBy(RUN, "node").orderBy("base_offset")
    pairs = logged_voter_sets(batches).withColumn("before", fn.lag("voters").over(in_order)).where("before is not null")
    changed = fn.size(fn.array_except("voters", "before")) + fn.size(fn.array_except("before", "voters"))
    text = "voters change one at a time: in the log of node %d the voters %s became %s at offset %d"
    message = fn.format_string(text, "node", ids("before"), ids("voters"), "base_offset")
    return finding(pairs.where(changed > 1), check, "voter-sets-apart", message, node=fn.col("node"))


def changes_uncommitted(batches: DataFrame, observations: DataFrame, check: str) -> DataFrame:
    """The first claim of each leader and epoch that has several voter sets in its log above its high watermark."""
    claims = observations.where(
        (fn.col("kind") == "claim") & (fn.col("high_watermark") >= 0) & fn.col("log_end_offset").isNotNull()
    ).select(RUN, "node", "epoch", "time_ns", "high_watermark", "log_end_offset")
    in_order = Window.partitionBy(RUN, "node").orderBy("base_offset")
    sets = logged_voter_sets(batches).withColumn("before", fn.lag("voters").over(in_order))
    held = sets.where("before is null or before != voters").select(RUN, "node", "base_offset", "leader_epoch")
    is_open = (
        (fn.col("leader_epoch") <= fn.col("epoch"))
        & (fn.col("base_offset") >= fn.col("high_watermark"))
        & (fn.col("base_offset") < fn.col("log_end_offset"))
    )
    offsets = fn.sort_array(fn.collect_set("base_offset"))
    compared = (
        claims.join(held, on=[RUN, "node"], how="inner")
        .where(is_open)
        .groupBy(*claims.columns)
        .agg(offsets.alias("offsets"))
    )
    several = compared.where(fn.size("offsets") > 1)
    first = several.withColumn(
        "rank", fn.row_number().over(Window.partitionBy(RUN, "node", "epoch").orderBy("time_ns"))
    )
    text = (
        "one change of voters is uncommitted at a time: with high watermark %d the leader of epoch %d, node %d, had %s"
    )
    places = fn.concat(fn.lit("voter sets at offsets "), ids("offsets"))
    message = fn.format_string(text, "high_watermark", "epoch", "node", places)
    name, node, time_ns = "voter-changes-uncommitted", fn.col("node"), fn.col("time_ns")
    return finding(first.where("rank = 1"), check, name, message, node=node, time_ns=time_ns)


def elections(batches: DataFrame, check: str) -> DataFrame:
    """Leaders that counted votes of other voters than those of the last voter set in their log, or too few votes."""
    log = batches.where(is_of_quorum())
    before = Window.partitionBy(RUN, "node").orderBy("base_offset").rowsBetween(Window.unboundedPreceding, -1)
    last_set = fn.last(set_of_batch(), ignorenulls=True).over(before)
    elected = log.withColumn("last_set", last_set).where("election is not null")
    each = (RUN, "leader_epoch", "base_offset", "leader", "voters", "granting", "last_set")
    decoded = elected.withColumn("record", fn.from_json("election", ELECTION)).select(
        *(RUN, "node", "leader_epoch", "base_offset", "last_set", "record.leader"),
        fn.array_sort("record.voters").alias("voters"),
        fn.array_sort("record.granting").alias("granting"),
    )
    # Every replica of a log has its records: each election is one row, with the nodes whose logs have it.
    held = decoded.groupBy(*each).agg(fn.sort_array(fn.collect_set("node")).alias("nodes"))
    place = fn.format_string(
        "epoch %d (LeaderChange at offset %d in the logs of nodes %s) node %d",
        *("leader_epoch", "base_offset", ids("nodes"), "leader"),
    )
    stale = finding(
        held.where("last_set is not null and voters != last_set"),
        check,
        "stale-voters",
        fn.concat(
            fn.lit("a leader counts the votes of the last voter set in its log: as leader of "),
            place,
            fn.format_string(" counted voters %s, after a KRaftVoters record of %s", ids("voters"), ids("last_set")),
        ),
        node=fn.col("leader"),
    )
    counted = fn.coalesce("last_set", "voters")
    votes = fn.array_intersect("granting", counted)
    too_few = finding(
        held.where(2 * fn.size(votes) <= fn.size(counted)),
        check,
        "elected-without-majority",
        fn.concat(
            fn.lit("a majority of the voters elects a leader: as leader of "),
            place,
            fn.format_string(" had the votes of %s, of voters %s", ids(votes), ids(counted)),
        ),
        node=fn.col("leader"),
    )
    return stale.unionAll(too_few)


def ids(array: Column | str) -> Column:
    """An array of numbers as text."""
    numbers = fn.col(array) if isinstance(array, str) else array
    return fn.concat_ws(", ", numbers.cast("array<string>"))
