"""Who votes in the quorum, from what the run recorded (KIP-853).

Two sources name voter sets: KRaftVoters records in the nodes' logs, and leaders' answers to DescribeQuorum (claims).
A leader appends the record before the new set counts, so a node that has the record is in the record's epoch or a
later one. That orders nodes and voter sets by epochs alone, without comparing clocks:

    observer   no recorded set has the node, or its epoch is below that of the first set that has it
    voter      every recorded set has it
    either     otherwise: which sets the node knew at a time is not recorded

The initial voters are those of the first set; they vote in every epoch. Where no set was recorded (a static quorum
whose leaders were never polled), every node is a voter.

Contains what is known about voters. Rules on voter sets are in checkers/kafka_log/voter_sets.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

QUORUM = ("__cluster_metadata", 0)
"""Topic and partition of the quorum's own log."""


@dataclass(frozen=True, slots=True)
class VoterSet:
    """A voter set as one source first names it: in which epoch, and at which offset or time (order) within it."""

    source: str
    voters: tuple[int, ...]
    epoch: int
    order: int


@dataclass(frozen=True, slots=True)
class Electorate:
    """Who votes when.

    joins: each node of any voter set → the first epoch of a set that has it; None for the initial voters. constant:
    the nodes that every set has. Both are empty where no set was recorded.
    """

    joins: Mapping[int, int | None]
    constant: frozenset[int]

    def is_observer(self) -> Column:
        """Whether a row's node cannot have been a voter in the row's epoch. An unknown epoch never excludes it."""
        if not self.joins:
            return fn.lit(False)
        early = [
            (fn.col("node") == node) & (fn.col("epoch") < epoch)
            for node, epoch in self.joins.items()
            if epoch is not None
        ]
        return fn.coalesce(reduce(or_, early, ~fn.col("node").isin(*self.joins)), fn.lit(False))

    def only_set(self) -> tuple[int, ...]:
        """The voters, if every recorded set is the same; empty otherwise, and where no set was recorded."""
        return tuple(sorted(self.constant)) if self.constant == self.joins.keys() else ()

    def may_be_observer(self) -> Column:
        """Whether some recorded set lacks a row's node."""
        return ~fn.col("node").isin(*self.constant) if self.joins else fn.lit(False)


def electorate(batches: DataFrame, observations: DataFrame) -> Electorate:
    """The run's electorate: one job, and a row for each distinct voter set to the driver."""
    logged = logged_voter_sets(batches).select(
        fn.lit("log").alias("source"),
        "voters",
        fn.col("leader_epoch").alias("epoch"),
        fn.col("base_offset").alias("order"),
    )
    claims = observations.where((fn.col("kind") == "claim") & fn.col("epoch").isNotNull())
    reported = claims.select(
        fn.lit("claim").alias("source"), reported_voters().alias("voters"), "epoch", fn.col("time_ns").alias("order")
    )
    named = logged.unionAll(reported.where("voters is not null")).groupBy("source", "voters")
    first = named.agg(fn.min(fn.struct("epoch", "order")).alias("first")).select("source", "voters", "first.*")
    return electorate_of([VoterSet(row.source, tuple(row.voters), row.epoch, row.order) for row in first.collect()])


def electorate_of(sets: Sequence[VoterSet]) -> Electorate:
    """The electorate that these voter sets make."""
    if not sets:
        return Electorate({}, frozenset())
    # Offsets and times do not compare, so each source has a beginning of its own.
    begins = {each.source: min(_place(other) for other in sets if other.source == each.source) for each in sets}
    first_epoch, _ = min(begins.values())
    is_first = {each: _place(each) == begins[each.source] and each.epoch == first_epoch for each in sets}
    initial = {node for each in sets if is_first[each] for node in each.voters}
    joins: dict[int, int | None] = {}
    for each in sorted(sets, key=lambda each: each.epoch):
        for node in each.voters:
            joins.setdefault(node, None if node in initial else each.epoch)
    return Electorate(joins, frozenset.intersection(*(frozenset(each.voters) for each in sets)))


def _place(voter_set: VoterSet) -> tuple[int, int]:
    return voter_set.epoch, voter_set.order


def logged_voter_sets(batches: DataFrame) -> DataFrame:
    """(node, base_offset, leader_epoch, voters): every voter set of the quorum's logs, as a sorted array of ids."""
    own = batches.where(is_of_quorum() & fn.col("voters").isNotNull())
    return own.select("node", "base_offset", "leader_epoch", set_of_batch().alias("voters"))


def is_of_quorum() -> Column:
    """Whether a batch is of the quorum's own log."""
    topic, partition = QUORUM
    return (fn.col("topic") == topic) & (fn.col("partition") == partition)


def set_of_batch() -> Column:
    """The voter set of a batch as a sorted array; null where it sets none."""
    return fn.array_sort(fn.from_json("voters", "array<int>"))


def reported_voters() -> Column:
    """The voters that a claim reports as a sorted array; null where it reports none."""
    return fn.array_sort(fn.map_keys(reported_reaches()).cast("array<int>"))


def reported_reaches() -> Column:
    """How far a claim knows each voter's log to reach: a map from the voter's id, as text; null where it has none."""
    return fn.from_json(fn.get_json_object("detail", "$.voters"), "map<string,bigint>")
