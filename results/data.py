"""The contents of a report, as frozen values: sides.py reads them from a run, report.py and drawing/ render them.

All times are nanoseconds since the start of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from harness.model import Finding, Op, Quantity
from harness.model.records.evidence import Evidence
from harness.model.records.fault_intervals import FaultInterval
from harness.model.records.finding import Severity
from results.description import RunDescription
from results.run_verdict import ExpectationResult

DOWN: Final = "Down"
"""The state of a node without a running process, in addition to those of quorum_states.State."""

Outcome = Literal["ok", "fail", "info"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("ok", "fail", "info")


@dataclass(frozen=True, slots=True)
class StateSpan:
    """A node was in a state (a value of quorum_states.State, or DOWN) in an epoch from start_ns to end_ns."""

    node: int
    state: str
    epoch: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class EpochStep:
    """From time_ns on, a node was in epoch."""

    node: int
    epoch: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    """The latency and outcome of a client operation that was invoked at time_ns."""

    time_ns: int
    latency_ms: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class LatencyQuantiles:
    """The latency quantiles of the ok operations that were invoked in a period around time_ns."""

    time_ns: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class SecondOfLoad:
    """The number of client operations that completed in a second, by outcome."""

    second: int
    ok: int
    fail: int
    info: int


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation with its invocation and completion; end is None without one. position counts those of its key."""

    start: Op
    end: Op | None
    position: int = 0

    @property
    def outcome(self) -> Outcome:
        """The type of its completion; info without one."""
        return "info" if self.end is None or self.end.type == "invoke" else self.end.type


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """A finding with the rows around its witnesses, in order of index. If it is drawn, also with the operations of the
    picture, the most important first, and the check's evidence."""

    finding: Finding
    ops: tuple[Op, ...] = ()
    operations: tuple[Operation, ...] = ()
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class ShownKind:
    """The findings of one kind: how many there are, and those that are shown, the clearest first."""

    name: str
    severity: Severity
    count: int
    shown: tuple[ShownFinding, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A message from one node to another, as recorded by the proxy; action is that of a rule, or `pass`."""

    time_ns: int
    source: int
    target: int
    direction: str
    action: str
    text: str


@dataclass(frozen=True, slots=True)
class MessageCount:
    """The number and total size of the requests of an API with this action."""

    name: str
    action: str
    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SideData:
    """One run in a report; name is `bad`, `good` or the run's name, system is the label of the system."""

    name: str
    system: str
    headline: str
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
    kinds: tuple[ShownKind, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    description: RunDescription | None = None

    @property
    def findings(self) -> tuple[ShownFinding, ...]:
        """All findings that are shown."""
        return tuple(shown for kind in self.kinds for shown in kind.shown)


@dataclass(frozen=True, slots=True)
class ReportData:
    """A complete report: a question in one sentence, its answer, the sides, and how to reproduce it.

    headline is one of results.headline, answer the verdict in a sentence. plan is the plan as JSON text; command is the
    command that repeats the run.
    """

    title: str
    question: str
    headline: str
    answer: str
    sides: tuple[SideData, ...]
    plan: str
    command: str
