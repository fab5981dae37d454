"""The quorum's safety, from what nodes were seen to do (KIP-595, KIP-996 "QuorumState changes", Raft's figure 3).

    two-leaders-in-one-epoch    an epoch has one leader
    epoch-went-back             a node's epoch never decreases, restarts included, while it keeps its disk
    vote-changed                a node votes for one candidate in an epoch, restarts included
    vote-forgotten              a vote on file stays there for its epoch, while the node keeps its disk (KIP-996
                                "FollowerState changes"; until then, becoming a follower dropped it, which a known
                                leader makes harmless); a leader's own is implied by its leading, and Kafka 4 leaves
                                it out
    candidate-without-prospective, illegal-transition
                                every transition is in the table of the version that ran, or in the observers' table
                                for a node that does not vote (checkers/quorum/voters.py); a start's state included
    high-watermark-went-back    the high watermark never decreases: in a leader's claims, and from epoch to epoch
    high-watermark-without-majority, committed-record-not-on-leader, follower-stuck
                                what leaders claim beside what they know of the voters (checkers/quorum_commits.py)

`no-observations` (unknown): nothing was seen, so nothing can be said. A log line's time and the moment a file was read
are known to different precision, so a node's epochs are compared within one source only. Where a clock fault
made a log's stamps worthless, its lines carry the times at which they were read, in order.

What may live here: rules that a correct quorum never breaks. What may not: numbers, which are quorum_quantities.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.contract import JudgeSettings, finding
from checkers.quorum.commits import (
    IN_ORDER,
    committed_record_not_on_leader,
    follower_stuck,
    high_watermark_without_majority,
)
from checkers.quorum.voters import Electorate, electorate
from harness.model import NEMESIS
from harness.model.quorum_states import KIP_996, OBSERVER, START_STATES, TABLES, State, Transition, TransitionTable

CHECK = "quorum"


def findings(history: DataFrame, observations: DataFrame, batches: DataFrame, settings: JudgeSettings) -> DataFrame:
    """Every broken rule, and whether anything was observed at all."""
    lived = lives(history, observations, settings)
    rules = [
        two_leaders(observations),
        epoch_went_back(lived),
        vote_changed(observations),
        vote_forgotten(lived, settings),
        illegal_transitions(observations, electorate(batches, observations), settings),
        high_watermark_went_back(observations),
        high_watermark_without_majority(observations, CHECK),
        committed_record_not_on_leader(observations, CHECK),
        follower_stuck(history, observations, CHECK, settings.ops),
        no_observations(observations, settings),
    ]
    return reduce(DataFrame.unionAll, rules)


def no_observations(observations: DataFrame, settings: JudgeSettings) -> DataFrame:  # noqa: ARG001
    """One unknown if no node was seen in any epoch."""
    none = observations.agg(fn.count("epoch").alias("seen")).where(fn.col("seen") == 0)
    return finding(none, CHECK, "no-observations", fn.lit("no node was observed in any epoch"), severity="unknown")


def lives(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:
    """The observations, each with its `life`: how often the nemesis had emptied its node's disk before."""
    is_wipe = (fn.col("process") == NEMESIS) & (fn.col("type") == "info") & fn.col("f").isin(*settings.ops.empties_disk)
    nodes = fn.from_json(fn.get_json_object("value", "$.nodes"), "array<int>")
    wipes = history.where(is_wipe & fn.col("error").isNull()).select(
        fn.explode(nodes).alias("node"), "time_ns", fn.lit(1).alias("wiped")
    )
    told = observations.withColumn("wiped", fn.lit(0)).unionByName(wipes, allowMissingColumns=True)
    so_far = Window.partitionBy("node").orderBy(*IN_ORDER).rowsBetween(Window.unboundedPreceding, 0)
    return told.withColumn("life", fn.sum("wiped").over(so_far)).where("wiped = 0").drop("wiped")


def leaderships(observations: DataFrame) -> DataFrame:
    """(epoch, leader, since_ns): who led each epoch by anybody's word, and since when that was seen."""
    itself = (fn.col("kind") == "claim") | ((fn.col("kind") == "transition") & (fn.col("state") == State.LEADER.value))
    leader = fn.when(itself, fn.col("node")).otherwise(fn.col("leader"))
    told = observations.select("epoch", leader.alias("leader"), "time_ns").where("epoch is not null and leader >= 0")
    return told.groupBy("epoch", "leader").agg(fn.min("time_ns").alias("since_ns"))


def two_leaders(observations: DataFrame) -> DataFrame:
    """Epochs with several leaders; the node is the one seen last."""
    led = leaderships(observations).groupBy("epoch")
    several = led.agg(
        fn.sort_array(fn.collect_set("leader")).alias("leaders"), fn.max(fn.struct("since_ns", "leader")).alias("last")
    ).where(fn.size("leaders") > 1)
    names = fn.concat_ws(", ", fn.col("leaders").cast("array<string>"))
    message = fn.format_string("an epoch has one leader: epoch %d had nodes %s", "epoch", names)
    last = fn.col("last")
    return finding(several, CHECK, "two-leaders-in-one-epoch", message, node=last.leader, time_ns=last.since_ns)


def epoch_went_back(observations: DataFrame) -> DataFrame:
    """Rows whose epoch is below one that the same source told of the same node and disk before."""
    own = observations.where(fn.col("kind").isin("transition", "durable") & fn.col("epoch").isNotNull())
    before = Window.partitionBy("node", "life", "kind").orderBy(*IN_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    lower = own.withColumn("highest", fn.max("epoch").over(before)).where("epoch < highest")
    text = "a node's epoch never decreases: node %d was in epoch %d and then in %d"
    message = fn.format_string(text, "node", "highest", "epoch")
    return finding(lower, CHECK, "epoch-went-back", message, node=fn.col("node"), time_ns=fn.col("time_ns"))


def vote_changed(observations: DataFrame) -> DataFrame:
    """Nodes seen to have voted for several candidates in one epoch."""
    votes = observations.where(fn.col("kind").isin("transition", "durable") & (fn.col("voted") >= 0))
    given = votes.groupBy("node", "epoch", "voted").agg(fn.min("time_ns").alias("since_ns"))
    several = (
        given.groupBy("node", "epoch")
        .agg(fn.sort_array(fn.collect_list(fn.struct("since_ns", "voted"))).alias("votes"))
        .where(fn.size("votes") > 1)
    )
    names = fn.concat_ws(", ", fn.col("votes.voted").cast("array<string>"))
    text = "a node votes for one candidate in an epoch: in epoch %d node %d voted for %s"
    message = fn.format_string(text, "epoch", "node", names)
    second = fn.element_at("votes", 2).since_ns
    return finding(several, CHECK, "vote-changed", message, node=fn.col("node"), time_ns=second)


def vote_forgotten(observations: DataFrame, settings: JudgeSettings) -> DataFrame:
    """Files in which a vote is gone while the epoch is the same, of nodes whose versions keep it."""
    keeps = by_table(settings, lambda table: fn.lit(table is KIP_996))
    files = observations.where((fn.col("kind") == "durable") & keeps)
    before = Window.partitionBy("node", "life", "epoch").orderBy(*IN_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    known = files.withColumn("given", fn.last(fn.when(fn.col("voted") >= 0, fn.col("voted")), True).over(before))
    implied = fn.coalesce(fn.col("leader") == fn.col("node"), fn.lit(False))
    gone = known.where((fn.coalesce("voted", fn.lit(-1)) < 0) & fn.col("given").isNotNull() & ~implied)
    first = gone.groupBy("node", "epoch", "given").agg(fn.min("time_ns").alias("since_ns"))
    text = "a vote on file stays there for its epoch: in epoch %d node %d had voted for %d, and then for nobody"
    message = fn.format_string(text, "epoch", "node", "given")
    return finding(first, CHECK, "vote-forgotten", message, node=fn.col("node"), time_ns=fn.col("since_ns"))


def illegal_transitions(observations: DataFrame, voters: Electorate, settings: JudgeSettings) -> DataFrame:
    """Transitions that no row of the node's table explains, and processes that start in a state that is no start state.

    The table is that of the node's version, for an observer the observers'; a node that may be either may follow both.
    """
    is_observer = voters.is_observer()
    as_observer = explained(OBSERVER)
    as_voter = by_table(settings, explained) | (voters.may_be_observer() & as_observer)
    legal = fn.when(is_observer, as_observer).otherwise(as_voter)
    begins = fn.col("source").isNull()
    may_begin = fn.col("state").isin(*(state.value for state in START_STATES))
    bad = steps(observations).where(~fn.when(begins, may_begin).otherwise(legal))
    jumped = ~begins & (fn.col("state") == State.CANDIDATE.value) & (fn.col("source") != State.PROSPECTIVE.value)
    must_ask_first = by_table(settings, lambda table: fn.lit(needs_prospective(table)))
    name = fn.when(jumped & must_ask_first & ~is_observer, "candidate-without-prospective")
    text = "every transition is in the table of %s: node %d went from %s (epoch %s) to %s (epoch %s)"
    source, before = (
        fn.coalesce("source", fn.lit("its start")),
        fn.coalesce(fn.col("before").cast("string"), fn.lit("?")),
    )
    rules = fn.when(is_observer, OBSERVER.name).otherwise(by_table(settings, lambda table: fn.lit(table.name)))
    message = fn.format_string(text, rules, "node", source, before, "state", fn.col("epoch").cast("string"))
    named = name.otherwise("illegal-transition")
    return finding(bad, CHECK, named, message, node=fn.col("node"), time_ns=fn.col("time_ns"))


def by_table(settings: JudgeSettings, value: Callable[[TransitionTable], Column]) -> Column:
    """A value that depends on the transition table of the version that a row's node ran."""
    common = TABLES[settings.table]
    own = {node: TABLES[name] for node, name in settings.tables.items()}
    chosen = value(common)
    for table in {table: None for table in own.values() if table is not common}:
        theirs = [node for node, each in own.items() if each is table]
        chosen = fn.when(fn.col("node").isin(theirs), value(table)).otherwise(chosen)
    return chosen


def steps(observations: DataFrame) -> DataFrame:
    """Each transition with the state and epoch it started from: `source`, null for a process's first, and `before`.

    Where the lines between two transitions were missed, the epoch before is not known and `before` is null.
    """
    seen = observations.where(fn.col("kind").isin("transition", "started"))
    in_order = Window.partitionBy("node").orderBy(*IN_ORDER)
    # A start says nothing of state and epoch, so what comes after it has none to start from.
    last_state, last_epoch = fn.lag("state").over(in_order), fn.lag("epoch").over(in_order)
    source = fn.coalesce("previous", last_state)
    followed = seen.withColumn("source", source).withColumn(
        "before", fn.when(fn.col("source") == last_state, last_epoch)
    )
    return followed.where(fn.col("kind") == "transition").select(
        "node", "time_ns", "source", "before", "state", "epoch"
    )


def explained(table: TransitionTable) -> Column:
    """Whether some row of the table explains a step; an epoch that is not known speaks against none."""
    return fn.expr(" or ".join(map(explains, table.rows)))


def explains(row: Transition) -> str:
    """Whether this row of the table explains a step, in SQL: as columns, a table would be hundreds of calls of Java."""
    admits = {
        "same": "epoch = before",
        "next": "epoch = before + 1",
        "higher": "epoch > before",
        "same or higher": "epoch >= before",
    }[row.epoch]
    return f"(source = '{row.source.value}' and state = '{row.target.value}' and coalesce({admits}, true))"


def needs_prospective(table: TransitionTable) -> bool:
    """Whether only a Prospective node becomes a Candidate: KIP-996's rule, as its table has it."""
    return {row.source for row in table.rows if row.target is State.CANDIDATE} == {State.PROSPECTIVE}


def high_watermark_went_back(observations: DataFrame) -> DataFrame:
    """Claims below an earlier claim of the same leader, or below any claim of an earlier epoch.

    The second needs no clock: what an earlier leader committed is in every later leader's log, and a leader claims no
    high watermark before it has committed in its own epoch (KIP-595).
    """
    claims = observations.where((fn.col("kind") == "claim") & (fn.col("high_watermark") >= 0))
    of_leader = Window.partitionBy("node", "epoch").orderBy(*IN_ORDER)
    highest = fn.max("high_watermark")
    own = claims.withColumn("own", highest.over(of_leader.rowsBetween(Window.unboundedPreceding, -1)))
    epochs = claims.groupBy("epoch").agg(highest.alias("highest"))
    earlier = epochs.select(
        "epoch",
        fn.max("highest").over(Window.orderBy("epoch").rowsBetween(Window.unboundedPreceding, -1)).alias("inherited"),
    )
    floor = fn.greatest("own", "inherited")
    lower = own.join(earlier, on="epoch", how="inner").withColumn("floor", floor).where("high_watermark < floor")
    text = "the high watermark never decreases: node %d claimed %d in epoch %d after %d had been claimed"
    message = fn.format_string(text, "node", "high_watermark", "epoch", "floor")
    return finding(lower, CHECK, "high-watermark-went-back", message, node=fn.col("node"), time_ns=fn.col("time_ns"))
