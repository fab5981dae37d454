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
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN, of_run
from checkers.framework.contract import JudgeSettings

QUORUM = ("__cluster_metadata", 0)
"""Topic and partition of the quorum's own log."""

OF_RUN = "struct<nodes: array<int>, joins: map<string, int>, constant: array<int>>"
"""An electorate: the nodes of any voter set, the epochs in which nodes joined later, and the constant voters."""


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

    def only_set(self) -> tuple[int, ...]:
        """The voters, if every recorded set is the same; empty otherwise, and where no set was recorded."""
        return tuple(sorted(self.constant)) if self.constant == self.joins.keys() else ()

    def as_row(self) -> dict[str, Any]:
        """The electorate as a value of OF_RUN."""
        early = {str(node): epoch for node, epoch in self.joins.items() if epoch is not None}
        return {"nodes": sorted(self.joins), "joins": early, "constant": sorted(self.constant)}


@dataclass(frozen=True, slots=True)
class Electorates:
    """The electorate of each run, and of a row's run as a column."""

    of: Mapping[int, Electorate]
    of_row: Column

    def is_observer(self) -> Column:
        """Whether a row's node cannot have been a voter in the row's epoch. An unknown epoch never excludes it."""
        if not any(each.joins for each in self.of.values()):
            return fn.lit(False)
        nodes, node = self.of_row["nodes"], fn.col("node")
        is_early = fn.col("epoch") < self.of_row["joins"][node.cast("string")]
        return (fn.size(nodes) > 0) & fn.coalesce(~fn.array_contains(nodes, node) | is_early, fn.lit(False))

    def may_be_observer(self) -> Column:
        """Whether some recorded set lacks a row's node."""
        if not any(each.joins for each in self.of.values()):
            return fn.lit(False)
        return (fn.size(self.of_row["nodes"]) > 0) & ~fn.array_contains(self.of_row["constant"], fn.col("node"))

    def only_set(self, settings: JudgeSettings) -> Column:
        """The voters, if every recorded set is the same; empty otherwise, and where no set was recorded."""
        return of_run({run: each.only_set() for run, each in self.of.items()}, "array<int>", settings)


def electorates(batches: DataFrame, observations: DataFrame, settings: JudgeSettings) -> Electorates:
    """The runs' electorates: one job, and a row for each distinct voter set of a run to the driver."""
    logged = logged_voter_sets(batches).select(
        RUN,
        fn.lit("log").alias("source"),
        "voters",
        fn.col("leader_epoch").alias("epoch"),
        fn.col("base_offset").alias("order"),
    )
    claims = observations.where((fn.col("kind") == "claim") & fn.col("epoch").isNotNull())
    reported = claims.select(
        RUN,
        fn.lit("claim").alias("source"),
        reported_voters().alias("voters"),
        "epoch",
        fn.col("time_ns").alias("order"),
    )
    named = logged.unionAll(reported.where("voters is not null")).groupBy(RUN, "source", "voters")
    first = named.agg(fn.min(fn.struct("epoch", "order")).alias("first")).select(RUN, "source", "voters", "first.*")
    sets: dict[int, list[VoterSet]] = {run: [] for run in settings.runs}
    for row in first.collect():
        sets[row[RUN]].append(VoterSet(row.source, tuple(row.voters), row.epoch, row.order))
    return electorates_of({run: electorate_of(each) for run, each in sets.items()}, settings)


def electorates_of(each: Mapping[int, Electorate], settings: JudgeSettings) -> Electorates:
    """The electorates of these runs."""
    return Electorates(each, of_run({run: one.as_row() for run, one in each.items()}, OF_RUN, settings))


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
    """(run, node, base_offset, leader_epoch, voters): every voter set of the quorum's logs, as sorted ids."""
    own = batches.where(is_of_quorum() & fn.col("voters").isNotNull())
    return own.select(RUN, "node", "base_offset", "leader_epoch", set_of_batch().alias("voters"))


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
