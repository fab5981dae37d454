"""What a report shows, as values: report.py renders them, drawing/ draws them, sides.py makes them from a run.

All times are nanoseconds since the run began. What may live here: frozen values. What may not: reading, drawing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from harness.model import Finding, Op, Quantity, Verdict
from harness.model.records.evidence import Evidence
from harness.model.records.fault_intervals import FaultInterval
from results.run_verdict import ExpectationResult

DOWN: Final = "Down"
"""The state of a node without a running process, beside the members of quorum_states.State."""

Outcome = Literal["ok", "fail", "info"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("ok", "fail", "info")


@dataclass(frozen=True, slots=True)
class StateSpan:
    """A node was in a state (of quorum_states.State by value, or DOWN) of an epoch from start_ns to end_ns."""

    node: int
    state: str
    epoch: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class EpochStep:
    """From time_ns on, a node knew of epoch."""

    node: int
    epoch: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    """A client operation that began at time_ns took latency_ms to end in outcome."""

    time_ns: int
    latency_ms: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class LatencyQuantiles:
    """Of the operations that ended in ok and began in the stretch of time around time_ns, their quantiles in ms."""

    time_ns: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class SecondOfLoad:
    """How many client operations ended how in the second that begins at `second`."""

    second: int
    ok: int
    fail: int
    info: int


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation with both its ends; end is None where none was recorded. position counts those of its key."""

    start: Op
    end: Op | None
    position: int = 0

    @property
    def outcome(self) -> Outcome:
        """How it ended; what never did may yet."""
        return "info" if self.end is None or self.end.type == "invoke" else self.end.type


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """A finding with the rows around its witnesses, in index order; and where it is drawn, the operations of the
    picture, the ones that matter most first, and what else the check knew."""

    finding: Finding
    ops: tuple[Op, ...] = ()
    operations: tuple[Operation, ...] = ()
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A message from one node to another as it came by the proxy; action is what a rule did, or `pass`."""

    time_ns: int
    source: int
    target: int
    direction: str
    action: str
    words: str


@dataclass(frozen=True, slots=True)
class MessageCount:
    """How many requests of a name met this action, and their bytes in all."""

    name: str
    action: str
    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SideData:
    """One run as the report shows it; name is `bad`, `good` or the run's own, system says what ran on the nodes."""

    name: str
    system: str
    verdict: Verdict
    summary: str
    duration_ns: int
    nodes: tuple[int, ...]
    spans: tuple[StateSpan, ...] = ()
    epochs: tuple[EpochStep, ...] = ()
    faults: tuple[FaultInterval, ...] = ()
    latencies: tuple[LatencyPoint, ...] = ()
    quantiles: tuple[LatencyQuantiles, ...] = ()
    load: tuple[SecondOfLoad, ...] = ()
    quantities: tuple[Quantity, ...] = ()
    expectations: tuple[ExpectationResult, ...] = ()
    messages: tuple[Message, ...] = ()
    messages_total: int = 0
    message_counts: tuple[MessageCount, ...] = ()
    findings: tuple[ShownFinding, ...] = ()
    findings_total: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReportData:
    """A whole report: the question it answers in one sentence, the answer in words, the sides, how to repeat it.

    plan is the plan as JSON text, command the one command that repeats the run.
    """

    title: str
    question: str
    verdict: Verdict
    answer: str
    sides: tuple[SideData, ...]
    plan: str
    command: str
