"""When each fault was active: intervals computed from the nemesis's rows of the history.

A nemesis operation is two rows of process NEMESIS: its invocation, and its completion with the outcome. A fault's
interval begins with its invocation and ends when operations that end it (harness.model.nemesis_ops) have completed for
all of its links or nodes: one link that is healed does not end a partition, nor one start the kill of another node. A
mark, and an operation without a lasting effect, is an interval of its own. Waiting is not a fault, and marks of the
harness itself are omitted. `injections` counts what was injected.

Contains pure functions on operations. Does not read files or draw.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.model.nemesis_ops import CHOOSE, HEAL, NemesisOps
from harness.model.records.op import NEMESIS, Op
from harness.model.story import FINAL_READS, MARK, STORY_BEGINS

HARNESS_MARKS: Final = (STORY_BEGINS, FINAL_READS)
LABEL_LENGTH_MAX: Final = 48


@dataclass(frozen=True, slots=True)
class FaultInterval:
    """A fault was active from start_ns to end_ns; the two are equal for a mark.

    momentary: nothing was in place afterwards: a mark, or an operation without a lasting effect, which took this long.
    """

    label: str
    start_ns: int
    end_ns: int
    momentary: bool = False


@dataclass(frozen=True, slots=True)
class Injections:
    """How often a fault was injected: verified took effect, failed ended with an error or did not end."""

    fault: str
    verified: int
    failed: int


@dataclass(frozen=True, slots=True)
class _Active:
    """A fault that is in place since its invocation, on these links or nodes; None if its row does not say on which."""

    begin_ns: int
    f: str
    label: str
    scope: frozenset[Any] | None = None


def fault_intervals(history: Iterable[Op], end_ns: int, ops: NemesisOps) -> tuple[FaultInterval, ...]:
    """The intervals in order of their start. A fault that no operation ended lasts until end_ns."""
    intervals: list[FaultInterval] = []
    active: list[_Active] = []
    invocation: Op | None = None
    for op in history:
        if op.process != NEMESIS or op.f in ops.waits or op.value in HARNESS_MARKS:
            continue
        if op.f == MARK:
            intervals.append(FaultInterval(label_of(op), op.time_ns, op.time_ns, True))
        elif invocation is None or invocation.f != op.f:
            invocation = op
            if op.f not in ops.heals | ops.momentary:
                active.append(_Active(op.time_ns, op.f, label_of(op)))
        else:
            if op.f in ops.heals:
                active, ended = _after(active, op, ops)
                intervals += ended
            elif op.f in ops.momentary:
                intervals.append(FaultInterval(label_of(op), invocation.time_ns, op.time_ns, True))
            elif op.error is None:
                active[-1] = _Active(invocation.time_ns, op.f, label_of(op), _scope_of(op))
            invocation = None
    intervals += [FaultInterval(fault.label, fault.begin_ns, end_ns) for fault in active]
    return tuple(sorted(intervals, key=lambda interval: (interval.start_ns, interval.end_ns)))


def _after(active: list[_Active], healer: Op, ops: NemesisOps) -> tuple[list[_Active], list[FaultInterval]]:
    """The faults that are still in place after an operation that ends faults, and the intervals that it ends."""
    healed = None if healer.f == HEAL else _scope_of(healer)
    left: list[_Active] = []
    ended: list[FaultInterval] = []
    for fault in active:
        is_concerned = healer.f == HEAL or fault.f in ops.ends[healer.f]
        scope = frozenset() if healed is None or fault.scope is None else fault.scope - healed
        if not is_concerned:
            left.append(fault)
        elif scope:
            left.append(replace(fault, scope=scope))
        else:
            ended.append(FaultInterval(fault.label, fault.begin_ns, healer.time_ns))
    return left, ended


def _scope_of(op: Op) -> frozenset[Any] | None:
    """The links or nodes of a completed operation; None if its value has neither."""
    value = op.value if isinstance(op.value, dict) else {}
    if "links" in value:
        return frozenset((source, target) for source, target in value["links"])
    return frozenset(value["nodes"]) if "nodes" in value else None


def injections(history: Iterable[Op], ops: NemesisOps) -> tuple[Injections, ...]:
    """How often each fault was injected, in the order of the first time. An unknown operation is its own fault.

    Only an operation that completed without an error has verified its effect.
    """
    begun: Counter[str] = Counter()
    verified: Counter[str] = Counter()
    invocation: Op | None = None
    for op in history:
        if op.process != NEMESIS or op.f in (MARK, CHOOSE) or op.f in ops.waits | ops.heals:
            continue
        fault = ops.faults.get(op.f, op.f)
        if invocation is None or invocation.f != op.f:
            invocation = op
            begun[fault] += 1
        else:
            verified[fault] += op.error is None
            invocation = None
    return tuple(Injections(fault, verified[fault], number - verified[fault]) for fault, number in begun.items())


def label_of(op: Op) -> str:
    """The label of a nemesis operation: its value if that is text or has a `label`, else its name and value."""
    value: Any = op.value.get("label", op.value) if isinstance(op.value, dict) else op.value
    if value is None:
        text = op.f
    elif isinstance(value, str):
        text = value
    else:
        text = f"{op.f} {json.dumps(value, ensure_ascii=False)}"
    return text if len(text) <= LABEL_LENGTH_MAX else text[: LABEL_LENGTH_MAX - 1] + "…"


def spans_of(intervals: Iterable[FaultInterval]) -> tuple[tuple[int, int], ...]:
    """The times at which any fault was active, as disjoint (start_ns, end_ns)."""
    spans: list[tuple[int, int]] = []
    for interval in sorted(intervals, key=lambda interval: interval.start_ns):
        if interval.end_ns <= interval.start_ns:
            continue
        if spans and interval.start_ns <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], interval.end_ns))
        else:
            spans.append((interval.start_ns, interval.end_ns))
    return tuple(spans)
