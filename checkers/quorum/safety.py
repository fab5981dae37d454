"""The quorum's safety, from observations of its nodes (KIP-595, KIP-996 "QuorumState changes", Raft's figure 3).

    two-leaders-in-one-epoch    an epoch has one leader
    epoch-went-back             a node's epoch never decreases, restarts included, while it keeps its disk
    vote-changed                a node votes for one candidate in an epoch, restarts included
    vote-forgotten              a stored vote stays for its epoch, while the node keeps its file (KIP-996 "FollowerState
                                changes"; before, a node that became a follower dropped it, which is harmless once
                                the leader is known); a leader's own vote is implied, and Kafka 4 does not store it
    candidate-without-prospective, illegal-transition
                                every transition is allowed by the rules of the version that ran, or by those for
                                observers if the node does not vote (checkers/quorum/voters.py); a process starts in a
                                start state (harness.model.transition_rules)
    high-watermark-went-back    the high watermark never decreases: in a leader's claims, and from epoch to epoch
    high-watermark-without-majority, voters-changed-early, committed-record-not-on-leader, follower-stuck
                                claims compared with what leaders know of the voters (checkers/quorum/commits.py)

`no-observations` (unknown): nothing was observed. The time of a log line and the time at which a file was read differ
in precision, so a node's epochs are compared within one source only. If a clock fault made a log's time stamps
worthless, its lines have the times at which they were read, in order.

Contains rules that a correct quorum never breaks. Quantities are in checkers/quorum/quantities.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN, missing
from checkers.framework.contract import JudgeSettings, finding
from checkers.framework.timeline import with_disks
from checkers.quorum.commits import (
    IN_ORDER,
    committed_record_not_on_leader,
    follower_stuck,
    high_watermark_without_majority,
    voters_changed_early,
)
from checkers.quorum.voters import Electorates, electorates
from harness.model.quorum_states import State
from harness.model.transition_rules import AllowedStep, TransitionRules

CHECK = "quorum"


def findings(history: DataFrame, observations: DataFrame, batches: DataFrame, settings: JudgeSettings) -> DataFrame:
    """Every violated rule, and whether anything was observed."""
    erasing = settings.ops.erases_vote
    by_disk = with_disks(observations, history, erasing, *IN_ORDER)
    by_replica = with_disks(observations, history.where(_gives_new_directory()), erasing, *IN_ORDER)
    who = electorates(batches, observations, settings)
    rules = [
        two_leaders(observations),
        epoch_went_back(by_disk),
        vote_changed(observations),
        vote_forgotten(by_disk, settings),
        illegal_transitions(by_replica, who, settings),
        high_watermark_went_back(observations),
        high_watermark_without_majority(observations, who.only_set(settings), CHECK),
        voters_changed_early(observations, CHECK),
        committed_record_not_on_leader(observations, CHECK),
        follower_stuck(history, observations, CHECK, settings),
        no_observations(observations, settings),
    ]
    return reduce(DataFrame.unionAll, rules)


def no_observations(observations: DataFrame, settings: JudgeSettings) -> DataFrame:
    """One unknown if no node was observed in any epoch."""
    none = missing(observations.where(fn.col("epoch").isNotNull()), settings)
    return finding(none, CHECK, "no-observations", fn.lit("no node was observed in any epoch"), severity="unknown")


def leaderships(observations: DataFrame) -> DataFrame:
    """(run, epoch, leader, since_ns): the leaders of each epoch by any observation, and the time of the first."""
    itself = (fn.col("kind") == "claim") | ((fn.col("kind") == "transition") & (fn.col("state") == State.LEADER.value))
    leader = fn.when(itself, fn.col("node")).otherwise(fn.col("leader"))
    led = observations.select(RUN, "epoch", leader.alias("leader"), "time_ns")
    known = led.where("epoch is not null and leader >= 0")
    return known.groupBy(RUN, "epoch", "leader").agg(fn.min("time_ns").alias("since_ns"))


def two_leaders(observations: DataFrame) -> DataFrame:
    """Epochs with several leaders; the node is the one observed last."""
    led = leaderships(observations).groupBy(RUN, "epoch")
    several = led.agg(
        fn.sort_array(fn.collect_set("leader")).alias("leaders"), fn.max(fn.struct("since_ns", "leader")).alias("last")
    ).where(fn.size("leaders") > 1)
    names = fn.concat_ws(", ", fn.col("leaders").cast("array<string>"))
    message = fn.format_string("an epoch has one leader: epoch %d had nodes %s", "epoch", names)
    last = fn.col("last")
    return finding(several, CHECK, "two-leaders-in-one-epoch", message, node=last.leader, time_ns=last.since_ns)


def epoch_went_back(observations: DataFrame) -> DataFrame:
    """Rows whose epoch is below an earlier one from the same source, node and disk."""
    own = observations.where(fn.col("kind").isin("transition", "durable") & fn.col("epoch").isNotNull())
    before = (
        Window.partitionBy(RUN, "node", "disk", "kind").orderBy(*IN_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    )
    lower = own.withColumn("highest", fn.max("epoch").over(before)).where("epoch < highest")
    text = "a node's epoch never decreases: node %d was in epoch %d and then in %d"
    message = fn.format_string(text, "node", "highest", "epoch")
    return finding(lower, CHECK, "epoch-went-back", message, node=fn.col("node"), time_ns=fn.col("time_ns"))


def vote_changed(observations: DataFrame) -> DataFrame:
    """Nodes that voted for several candidates in one epoch."""
    votes = observations.where(fn.col("kind").isin("transition", "durable") & (fn.col("voted") >= 0))
    given = votes.groupBy(RUN, "node", "epoch", "voted").agg(fn.min("time_ns").alias("since_ns"))
    several = (
        given.groupBy(RUN, "node", "epoch")
        .agg(fn.sort_array(fn.collect_list(fn.struct("since_ns", "voted"))).alias("votes"))
        .where(fn.size("votes") > 1)
    )
    names = fn.concat_ws(", ", fn.col("votes.voted").cast("array<string>"))
    text = "a node votes for one candidate in an epoch: in epoch %d node %d voted for %s"
    message = fn.format_string(text, "epoch", "node", names)
    second = fn.element_at("votes", 2).since_ns
    return finding(several, CHECK, "vote-changed", message, node=fn.col("node"), time_ns=second)


def vote_forgotten(observations: DataFrame, settings: JudgeSettings) -> DataFrame:
    """Files without the vote that an earlier one has for the same epoch, on nodes whose version keeps it."""
    keeps = by_rules(settings, lambda rules: fn.lit(rules.keeps_votes))
    files = observations.where((fn.col("kind") == "durable") & keeps)
    before = (
        Window.partitionBy(RUN, "node", "disk", "epoch").orderBy(*IN_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    )
    known = files.withColumn("given", fn.last(fn.when(fn.col("voted") >= 0, fn.col("voted")), True).over(before))
    implied = fn.coalesce(fn.col("leader") == fn.col("node"), fn.lit(False))
    gone = known.where((fn.coalesce("voted", fn.lit(-1)) < 0) & fn.col("given").isNotNull() & ~implied)
    first = gone.groupBy(RUN, "node", "epoch", "given").agg(fn.min("time_ns").alias("since_ns"))
    text = "a stored vote stays for its epoch: in epoch %d node %d had voted for %d, and then its file had no vote"
    message = fn.format_string(text, "epoch", "node", "given")
    return finding(first, CHECK, "vote-forgotten", message, node=fn.col("node"), time_ns=fn.col("since_ns"))


def illegal_transitions(observations: DataFrame, voters: Electorates, settings: JudgeSettings) -> DataFrame:
    """Transitions that the node's rules do not allow, and processes that start in a state that is no start state.

    The rules are those of the node's version, for an observer those for observers; a node that may be either may follow
    both. `disk` counts the disks that a node got with a new directory id: with such a one it is another replica, which
    votes once it is added, and the voter sets do not tell the two apart (KIP-853).
    """
    is_observer = voters.is_observer()
    as_observer = by_rules(settings, lambda rules: allowed(rules.of_observers))
    may_be_observer = voters.may_be_observer() | (fn.col("disk") > 0)
    as_voter = by_rules(settings, allowed) | (may_be_observer & as_observer)
    legal = fn.when(is_observer, as_observer).otherwise(as_voter)
    is_start = fn.col("source").isNull()
    is_start_state = by_rules(settings, lambda rules: fn.col("state").isin(*rules.start_states))
    bad = steps(observations).where(~fn.when(is_start, is_start_state).otherwise(legal))
    skipped = ~is_start & (fn.col("state") == State.CANDIDATE.value) & (fn.col("source") != State.PROSPECTIVE.value)
    needs_pre_vote = by_rules(settings, lambda rules: fn.lit(needs_prospective(rules)))
    name = fn.when(skipped & needs_pre_vote & ~is_observer, "candidate-without-prospective")
    text = "every transition is in the table of %s: node %d went from %s (epoch %s) to %s (epoch %s)"
    source, before = (
        fn.coalesce("source", fn.lit("its start")),
        fn.coalesce(fn.col("before").cast("string"), fn.lit("?")),
    )
    own_name = by_rules(settings, lambda rules: fn.lit(rules.name))
    of_observers = by_rules(settings, lambda rules: fn.lit(rules.of_observers.name))
    followed = fn.when(is_observer, of_observers).otherwise(own_name)
    message = fn.format_string(text, followed, "node", source, before, "state", fn.col("epoch").cast("string"))
    named = name.otherwise("illegal-transition")
    return finding(bad, CHECK, named, message, node=fn.col("node"), time_ns=fn.col("time_ns"))


def _gives_new_directory() -> Column:
    """Whether a row of history is of an operation that gives a node a disk of another voter."""
    return fn.get_json_object("value", "$.newcomer") == "true"


def by_rules(settings: JudgeSettings, value: Callable[[TransitionRules], Column]) -> Column:
    """A value that depends on the rules that a row's node follows."""
    own = settings.node_rules
    chosen = value(settings.rules)
    for rules in dict.fromkeys(each for each in own.values() if each != settings.rules):
        nodes = [node for node, each in own.items() if each == rules]
        chosen = fn.when(fn.col("node").isin(nodes), value(rules)).otherwise(chosen)
    return chosen


def steps(observations: DataFrame) -> DataFrame:
    """Each transition with the state and epoch it started from: `source`, null for a process's first, and `before`.

    If log lines between two transitions were missed, the epoch before is unknown and `before` is null.
    """
    seen = observations.where(fn.col("kind").isin("transition", "started"))
    in_order = Window.partitionBy(RUN, "node").orderBy(*IN_ORDER)
    # A start has no state and epoch, so the transition after it starts from none.
    last_state, last_epoch = fn.lag("state").over(in_order), fn.lag("epoch").over(in_order)
    source = fn.coalesce("previous", last_state)
    followed = seen.withColumn("source", source).withColumn(
        "before", fn.when(fn.col("source") == last_state, last_epoch)
    )
    return followed.where(fn.col("kind") == "transition").select(
        RUN, "node", "time_ns", "source", "before", "state", "epoch"
    )


def allowed(rules: TransitionRules) -> Column:
    """Whether the rules allow a step; an unknown epoch satisfies any rule."""
    return fn.expr(" or ".join(map(allows, rules.steps)) or "false")


def allows(step: AllowedStep) -> str:
    """Whether a row is this step, in SQL: as columns, the rules would take hundreds of calls of Java."""
    admits = {
        "same": "epoch = before",
        "next": "epoch = before + 1",
        "higher": "epoch > before",
        "same or higher": "epoch >= before",
    }[step.epoch]
    # A JSON string is a string literal of Spark's SQL.
    source, target = json.dumps(step.source), json.dumps(step.target)
    return f"(source = {source} and state = {target} and coalesce({admits}, true))"


def needs_prospective(rules: TransitionRules) -> bool:
    """Whether only a Prospective node becomes a Candidate by these rules: KIP-996's invariant."""
    sources = {step.source for step in rules.steps if step.target == State.CANDIDATE.value}
    return sources == {State.PROSPECTIVE.value}


def high_watermark_went_back(observations: DataFrame) -> DataFrame:
    """Claims below an earlier claim of the same leader, or below any claim of an earlier epoch.

    The latter needs no clock: what an earlier leader committed is in every later leader's log, and a leader claims no
    high watermark before it has committed in its own epoch (KIP-595).
    """
    claims = observations.where((fn.col("kind") == "claim") & (fn.col("high_watermark") >= 0))
    of_leader = Window.partitionBy(RUN, "node", "epoch").orderBy(*IN_ORDER)
    highest = fn.max("high_watermark")
    own = claims.withColumn("own", highest.over(of_leader.rowsBetween(Window.unboundedPreceding, -1)))
    epochs = claims.groupBy(RUN, "epoch").agg(highest.alias("highest"))
    earlier = epochs.select(
        RUN,
        "epoch",
        fn.max("highest")
        .over(Window.partitionBy(RUN).orderBy("epoch").rowsBetween(Window.unboundedPreceding, -1))
        .alias("inherited"),
    )
    floor = fn.greatest("own", "inherited")
    lower = own.join(earlier, on=[RUN, "epoch"], how="inner").withColumn("floor", floor).where("high_watermark < floor")
    text = "the high watermark never decreases: node %d claimed %d in epoch %d after %d had been claimed"
    message = fn.format_string(text, "node", "high_watermark", "epoch", "floor")
    return finding(lower, CHECK, "high-watermark-went-back", message, node=fn.col("node"), time_ns=fn.col("time_ns"))
