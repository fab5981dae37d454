"""The quorum's liveness: what a majority of voters achieves while it runs and nothing disturbs it (Raft, 5.4 and 9.3).

    no-leader-elected    a majority that runs and reaches itself elects a leader within LIMIT_NS
    nothing-committed    its leader commits what it has appended within LIMIT_NS
    leader-not-resigned  a leader that another one has replaced resigns within RESIGN_NS (Check Quorum, KAFKA-15489)

A span is calm if no fault is in place but dead or paused processes, and these are fewer than half of the voters. Each
start, end, pause or resumption of a process, and each operation of the nemesis, begins another span: the quorum has
LIMIT_NS from then on. LIMIT_NS is several times what an election takes with Kafka's default timeouts. A process that
was started counts as dead until it takes part in the quorum (checkers/quorum/processes.py).

It is not recorded who was a voter when. So if the voters changed, a span is calm only if all nodes run, since a
majority of any voter set runs then. Nothing is said if a disk was lost, too: a voter set may name the replica on it.

Contains rules about what has to happen. What must never happen is in checkers/quorum/safety.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.framework.contract import Check, JudgeSettings, finding
from checkers.framework.timeline import nemesis_ops
from checkers.quorum.processes import process_events
from checkers.quorum.safety import leaderships
from checkers.quorum.voters import Electorate, electorates
from harness.model import Op
from harness.model.nemesis_ops import HEAL, NemesisOps
from harness.model.quorum_states import State
from harness.model.story import MARK

CHECK: Final = "liveness"
LIMIT_NS: Final = 15_000_000_000
RESIGN_NS: Final = 10_000_000_000
"""Check Quorum takes one and a half fetch timeouts, 3 s by default."""
SECOND_NS: Final = 1_000_000_000
SPANS: Final = "run int, begin_ns bigint, end_ns bigint, voters string"
CUT, HEAL_LINKS = "cut", "heal_links"
OF_PROCESSES: Final = ("kill", "stop", "start")
"""The operations whose effect the record of processes shows."""


@dataclass(frozen=True, slots=True)
class Span:
    """A calm time, and the voters that run in it."""

    begin_ns: int
    end_ns: int
    voters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Quorum:
    """The nodes of which enough have to run: a majority of the voters, or all if the voters changed."""

    nodes: tuple[int, ...]
    enough: int


@dataclass(frozen=True, slots=True)
class ProcessEvent:
    """From when a node takes part in the quorum, or does not."""

    time_ns: int
    node: int
    takes_part: bool


@dataclass(slots=True)
class _Disturbances:
    """What is in place at a time: an operation that is under way, links that are cut, other faults by name, and nodes
    that do not run."""

    under_way: str | None = None
    cut: set[tuple[int, int]] = field(default_factory=set)
    faults: set[str] = field(default_factory=set)
    down: set[int] = field(default_factory=set)
    paused: set[int] = field(default_factory=set)

    def nemesis(self, op: Op, ops: NemesisOps) -> None:
        """An operation begins or ends."""
        if self.under_way != op.f:
            self.under_way = op.f
            return
        self.under_way = None
        value = op.value if isinstance(op.value, dict) else {}
        nodes, links = set(value.get("nodes", ())), {(a, b) for a, b in value.get("links", ())}
        if op.f == HEAL and op.error is None:
            self.faults.clear()
            self.cut.clear()
            self.paused.clear()
        elif op.f == CUT and links:
            self.cut |= links
        elif op.f == HEAL_LINKS and op.error is None:
            self.cut -= links
        elif op.f == "pause":
            self.paused |= nodes
        elif op.f == "resume":
            self.paused -= nodes
        elif op.f not in (*OF_PROCESSES, HEAL, *ops.momentary, *ops.heals):
            self.faults.add(op.f)

    def process(self, event: ProcessEvent) -> None:
        """A node begins or ends to take part."""
        (self.down.discard if event.takes_part else self.down.add)(event.node)

    def running(self, quorum: Quorum) -> tuple[int, ...]:
        """The nodes of the quorum that run, if they are enough and nothing else is in place; else none."""
        left = tuple(node for node in quorum.nodes if node not in self.down | self.paused)
        is_calm = self.under_way is None and not self.faults and not self.cut
        return left if is_calm and len(left) >= quorum.enough else ()


def findings(history: DataFrame, observations: DataFrame, batches: DataFrame, settings: JudgeSettings) -> DataFrame:
    """The calm spans in which the quorum did nothing for too long."""
    deposed = leader_not_resigned(observations)
    rows = long_calm_spans(history, observations, batches, settings)
    if not rows:
        return deposed
    frame = observations.sparkSession.createDataFrame(rows, SPANS)
    return deposed.unionAll(no_leader(observations, frame)).unionAll(nothing_committed(observations, frame))


def long_calm_spans(
    history: DataFrame, observations: DataFrame, batches: DataFrame, settings: JudgeSettings
) -> list[tuple[int, int, int, str]]:
    """The rows of SPANS: each run's calm spans with LIMIT_NS."""
    who, operations = electorates(batches, observations, settings), nemesis_ops(history, settings)
    seen = observations.groupBy(RUN).agg(fn.collect_set("node").alias("nodes"), fn.max("time_ns").alias("end_ns"))
    processes: Mapping[int, list[ProcessEvent]] = defaultdict(list)
    for row in process_events(observations).orderBy("time_ns", "position").collect():
        processes[row[RUN]].append(ProcessEvent(row.time_ns, row.node, row.takes_part))
    rows: list[tuple[int, int, int, str]] = []
    for run, nodes, end_ns in seen.collect():
        quorum = quorum_of(who.of[run], nodes, operations[run], settings.ops)
        if quorum is not None:
            calm = calm_spans(operations[run], processes[run], quorum, end_ns or 0, settings.ops)
            long = [each for each in calm if each.end_ns - each.begin_ns > LIMIT_NS]
            rows += [(run, each.begin_ns, each.end_ns, ", ".join(map(str, each.voters))) for each in long]
    return rows


def quorum_of(electorate: Electorate, nodes: Iterable[int], operations: Iterable[Op], ops: NemesisOps) -> Quorum | None:
    """The nodes of which enough have to run for the quorum to go on; None if that is not known."""
    if electorate.constant == electorate.joins.keys():
        voters = tuple(sorted(electorate.constant or nodes))
        return Quorum(voters, len(voters) // 2 + 1)
    everyone = tuple(sorted({*nodes, *electorate.joins}))
    is_replica_lost = any(op.f in ops.empties_disk for op in operations)
    return None if is_replica_lost else Quorum(everyone, len(everyone))


def calm_spans(
    operations: Iterable[Op], processes: Sequence[ProcessEvent], quorum: Quorum, end_ns: int, ops: NemesisOps
) -> Iterator[Span]:
    """The calm spans until end_ns, in order. A node does not run before it first takes part."""
    of_nemesis = [op for op in operations if op.f != MARK and op.f not in ops.waits]
    events: list[tuple[int, Op | ProcessEvent]] = [(op.time_ns, op) for op in of_nemesis]
    events += [(event.time_ns, event) for event in processes]
    state, begin_ns = _Disturbances(down=set(quorum.nodes)), 0
    for time_ns, event in sorted(events, key=lambda each: each[0]):
        if (running := state.running(quorum)) and time_ns > begin_ns:
            yield Span(begin_ns, time_ns, running)
        if isinstance(event, ProcessEvent):
            state.process(event)
        else:
            state.nemesis(event, ops)
        begin_ns = time_ns
    if (running := state.running(quorum)) and end_ns > begin_ns:
        yield Span(begin_ns, end_ns, running)


def no_leader(observations: DataFrame, spans: DataFrame) -> DataFrame:
    """Spans with LIMIT_NS in which no node claimed to lead or became a leader."""
    entered = (fn.col("kind") == "transition") & (fn.col("state") == State.LEADER.value)
    signs = observations.where((fn.col("kind") == "claim") | entered).select(RUN, "time_ns")
    text = "a majority of the voters elects a leader: for %d s none led, while nodes %s ran and reached each other"
    return _found(gaps(signs, spans), "no-leader-elected", text)


def nothing_committed(observations: DataFrame, spans: DataFrame) -> DataFrame:
    """Spans with LIMIT_NS in which leaders had appended records and none of their high watermarks rose."""
    claims = observations.where("kind = 'claim' and log_end_offset >= 0")
    committed = fn.coalesce("high_watermark", fn.lit(-1))
    before = Window.partitionBy(RUN).orderBy("time_ns", "position").rowsBetween(Window.unboundedPreceding, -1)
    known = claims.withColumn("committed", committed).withColumn("highest", fn.max("committed").over(before))
    rises = known.where("highest is null or committed > highest or log_end_offset <= committed").select(RUN, "time_ns")
    long = gaps(rises, spans)
    pending = known.where("log_end_offset > committed").select(RUN, fn.col("time_ns").alias("claimed_ns"))
    inside = fn.col("claimed_ns").between(fn.col("from_ns"), fn.col("to_ns"))
    stalled = long.join(fn.broadcast(pending), on=RUN, how="inner").where(inside)
    lasting = (
        stalled.groupBy(RUN, "from_ns", "to_ns", "voters")
        .agg((fn.max("claimed_ns") - fn.min("claimed_ns")).alias("lasted"))
        .where(fn.col("lasted") > LIMIT_NS - SECOND_NS)
    )
    text = "a leader commits what it has appended: for %d s nothing was committed, while nodes %s ran"
    return _found(lasting, "nothing-committed", text)


def leader_not_resigned(observations: DataFrame) -> DataFrame:
    """Leaders that went on claiming their epoch for RESIGN_NS after a node had become the leader of a later one.

    The time counts from the leader's first claim after that: one that was paused, and resigns when it runs again, does
    not go on.
    """
    later = Window.partitionBy(RUN).orderBy("epoch").rowsBetween(1, Window.unboundedFollowing)
    epochs = leaderships(observations).groupBy(RUN, "epoch").agg(fn.min("since_ns").alias("since_ns"))
    replaced = epochs.select(RUN, "epoch", fn.min("since_ns").over(later).alias("replaced_ns"))
    claims = observations.where(fn.col("kind") == "claim").select(RUN, "node", "epoch", "time_ns")
    late = claims.join(replaced, on=[RUN, "epoch"], how="inner").where("time_ns > replaced_ns")
    lasted = late.groupBy(RUN, "node", "epoch").agg(
        fn.min("time_ns").alias("from_ns"), (fn.max("time_ns") - fn.min("time_ns")).alias("lasted")
    )
    text = "a leader without a majority resigns: node %d claimed to lead epoch %d for %d s after it had been replaced"
    seconds = (fn.col("lasted") / SECOND_NS).cast("int")
    message = fn.format_string(text, "node", "epoch", seconds)
    on_and_on = lasted.where(fn.col("lasted") > RESIGN_NS)
    name = "leader-not-resigned"
    return finding(on_and_on, CHECK, name, message, node=fn.col("node"), time_ns=fn.col("from_ns"))


def gaps(signs: DataFrame, spans: DataFrame) -> DataFrame:
    """(run, from_ns, to_ns, voters): the times longer than LIMIT_NS in the spans without a sign (time_ns)."""
    inside = fn.col("time_ns").between(fn.col("begin_ns"), fn.col("end_ns"))
    seen = fn.broadcast(spans).join(signs, on=RUN, how="inner").where(inside)
    seen = seen.select(RUN, "begin_ns", "end_ns", "voters", "time_ns")
    ends = spans.select(RUN, "begin_ns", "end_ns", "voters", fn.col("end_ns").alias("time_ns"))
    last = fn.lag("time_ns").over(Window.partitionBy(RUN, "begin_ns").orderBy("time_ns"))
    spaced = seen.unionAll(ends).withColumn("from_ns", fn.coalesce(last, fn.col("begin_ns")))
    long = spaced.where(fn.col("time_ns") - fn.col("from_ns") > LIMIT_NS)
    return long.select(RUN, "from_ns", fn.col("time_ns").alias("to_ns"), "voters")


def _found(times: DataFrame, name: str, text: str) -> DataFrame:
    seconds = ((fn.col("to_ns") - fn.col("from_ns")) / SECOND_NS).cast("int")
    return finding(times, CHECK, name, fn.format_string(text, seconds, "voters"), time_ns=fn.col("from_ns"))


LIVENESS = Check(findings, reads=("history", "observations", "batches"), judges="observation", handles_many_runs=True)
