"""Votes and epochs that nodes announced, compared with each other and with the nodes' files.

    two-votes-announced, announced-vote-not-in-file, announced-epoch-forgotten
                        defined, with what they leave out, in checkers/announcements/announcements.py

Contains the rules. Those on high watermarks are in checkers/announcements/commits.py.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.announcements.violations import broken
from checkers.framework.by_run import RUN
from checkers.framework.contract import JudgeSettings
from checkers.quorum.safety import by_rules
from harness.model.faults.rpc import Api
from harness.model.records.observation import ENDS

SPARE_NS = 1_000_000_000


def is_request(*api_keys: Api) -> Column:
    """Whether a row is a request of one of these APIs."""
    return (fn.col("direction") == "request") & fn.col("api_key").isin(*map(int, api_keys))


def is_vote() -> Column:
    """Whether a row gives a vote that is no pre-vote: a grant, or a candidate's request, which votes for itself."""
    is_standard = (fn.col("api_key") == int(Api.VOTE)) & (fn.col("pre_vote") == fn.lit(False))
    return is_standard & ((fn.col("direction") == "request") | fn.col("granted"))


def votes(rpcs: DataFrame) -> DataFrame:
    """(run, node, epoch, candidate, since_ns): the votes that nodes announced, and when each was announced first."""
    candidate = fn.when(fn.col("direction") == "request", fn.col("source")).otherwise(fn.col("target"))
    given = rpcs.where(is_vote() & fn.col("epoch").isNotNull()).select(
        RUN, fn.col("source").alias("node"), "epoch", candidate.alias("candidate"), "time_ns"
    )
    return given.groupBy(RUN, "node", "epoch", "candidate").agg(fn.min("time_ns").alias("since_ns"))


def two_votes(rpcs: DataFrame) -> DataFrame:
    """Nodes that announced votes for several candidates of an epoch, at the time of the second."""
    given = votes(rpcs).groupBy(RUN, "node", "epoch")
    in_order = fn.sort_array(fn.collect_list(fn.struct("since_ns", "candidate"))).alias("votes")
    several = given.agg(in_order).where(fn.size("votes") > 1)
    names = fn.concat_ws(", ", fn.col("votes.candidate").cast("array<string>"))
    text = "a node votes for one candidate in an epoch: in epoch %d node %d announced votes for %s"
    message = fn.format_string(text, "epoch", "node", names)
    second = fn.element_at("votes", 2).since_ns
    return broken(several, "two-votes-announced", message, time_ns=second)


def vote_not_in_file(rpcs: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:
    """Files without a vote that was announced before in their epoch, or with another one."""
    keeps = by_rules(settings, lambda rules: fn.lit(rules.keeps_votes))
    leads = fn.coalesce(fn.col("leader") == fn.col("node"), fn.lit(False))
    voted = fn.when(fn.col("voted") >= 0, fn.col("voted"))
    files = observations.where("kind = 'durable'").select(
        RUN, "node", "epoch", "time_ns", voted.alias("voted"), (keeps & ~leads).alias("has_vote")
    )
    both = votes(rpcs).join(files, on=[RUN, "node", "epoch"], how="inner")
    later = both.where(fn.col("time_ns") >= fn.col("since_ns") + SPARE_NS)
    lacks = fn.when(fn.col("voted").isNull(), fn.col("has_vote")).otherwise(fn.col("voted") != fn.col("candidate"))
    wrong = later.where(lacks).groupBy(RUN, "node", "epoch", "candidate")
    first = wrong.agg(fn.min("time_ns").alias("time_ns"), fn.min_by("voted", "time_ns").alias("voted"))
    on_file = fn.coalesce(fn.format_string("a vote for %d", "voted"), fn.lit("no vote"))
    text = (
        "a vote is stored before it is announced: in epoch %d node %d announced a vote for %d, and then its file had %s"
    )
    message = fn.format_string(text, "epoch", "node", "candidate", on_file)
    return broken(first, "announced-vote-not-in-file", message)


def epochs(rpcs: DataFrame) -> DataFrame:
    """(run, node, time_ns, epoch): the epochs that nodes announced as their own."""
    is_own = is_request(Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH) | is_vote() | fn.col("fetch_offset").isNotNull()
    return rpcs.where(is_own & (fn.col("epoch") > 0)).select(RUN, fn.col("source").alias("node"), "time_ns", "epoch")


def epoch_not_in_file(rpcs: DataFrame, observations: DataFrame) -> DataFrame:
    """Files with an epoch below one that their node announced before."""
    nothing = fn.lit(None).cast("int")
    files = observations.where("kind = 'durable' and epoch is not null")
    files = files.select(RUN, "node", "time_ns", nothing.alias("announced"), fn.col("epoch").alias("stored"))
    announced = epochs(rpcs).select(RUN, "node", "time_ns", fn.col("epoch").alias("announced"), nothing.alias("stored"))
    earlier = Window.partitionBy(RUN, "node").orderBy("time_ns").rangeBetween(Window.unboundedPreceding, -SPARE_NS)
    both = announced.unionAll(files).withColumn("highest", fn.max("announced").over(earlier))
    return forgotten(both.withColumnRenamed("stored", "lower").where("lower < highest"), "its file had epoch")


def epoch_forgotten(rpcs: DataFrame, observations: DataFrame) -> DataFrame:
    """Requests of a restarted process with an epoch below one that its node had announced before the restart."""
    nothing, kind, time_ns = fn.lit(None).cast("int"), fn.col("kind"), fn.col("time_ns")
    processes = observations.where(kind.isin("started", *ENDS))
    processes = processes.select(RUN, "node", "time_ns", "kind", nothing.alias("announced"), nothing.alias("lower"))
    announced = epochs(rpcs).select(
        RUN, "node", "time_ns", fn.lit("rpc").alias("kind"), "epoch", nothing.alias("lower")
    )
    is_own = is_request(Api.VOTE, Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH) | fn.col("fetch_offset").isNotNull()
    stated = rpcs.where(is_own & fn.col("epoch").isNotNull()).select(
        RUN, fn.col("source").alias("node"), "time_ns", fn.lit("rpc").alias("kind"), nothing, "epoch"
    )
    # At equal times, what was announced comes before what happened to the process.
    so_far = Window.partitionBy(RUN, "node").orderBy("time_ns", kind != "rpc").rowsBetween(Window.unboundedPreceding, 0)
    seen = processes.unionAll(announced).unionAll(stated).withColumn("so_far", fn.max("announced").over(so_far))
    since = seen.select(
        RUN,
        "node",
        "time_ns",
        "lower",
        fn.max(fn.when(kind == "started", time_ns)).over(so_far).alias("started_ns"),
        fn.max(fn.when(kind.isin(*ENDS), time_ns)).over(so_far).alias("ended_ns"),
        fn.max(fn.when(kind == "started", fn.col("so_far"))).over(so_far).alias("highest"),
    )
    restarted = since.where(f"ended_ns <= started_ns and time_ns >= ended_ns + {SPARE_NS} and lower < highest")
    return forgotten(restarted, "after a restart it was in epoch")


def forgotten(rows: DataFrame, how: str) -> DataFrame:
    """The first of a node's rows for each epoch that it had announced."""
    first = rows.groupBy(RUN, "node", "highest").agg(
        fn.min("time_ns").alias("time_ns"), fn.min_by("lower", fn.struct("time_ns", "lower")).alias("lower")
    )
    text = f"an epoch is stored before it is announced: node %d announced epoch %d, and then {how} %d"
    return broken(first, "announced-epoch-forgotten", fn.format_string(text, "node", "highest", "lower"))
