"""When each fault was in place: intervals computed from the nemesis's rows of the history.

A nemesis operation is two rows of process NEMESIS: its invocation, and its completion with the outcome. A fault's
interval begins with its invocation and ends when an operation that ends it completes (harness.model.nemesis_ops). A
mark, and an operation whose effect does not last, is an interval of its own. Waiting is not a fault, and the marks that
the harness sets are not shown.

Contains pure functions on operations. Does not read files or draw.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from harness.model.nemesis_ops import AWAIT, HEAL, NemesisOps
from harness.model.records.op import NEMESIS, Op
from harness.model.story import FINAL_READS, MARK, STORY_BEGINS

OUR_MARKS: Final = (STORY_BEGINS, FINAL_READS)
LABEL_LENGTH_MAX: Final = 48


@dataclass(frozen=True, slots=True)
class FaultInterval:
    """A fault was in place from start_ns to end_ns; both are the same for a mark."""

    label: str
    start_ns: int
    end_ns: int


def fault_intervals(history: Iterable[Op], end_ns: int, ops: NemesisOps) -> tuple[FaultInterval, ...]:
    """The intervals in order of their beginning; a fault that nothing ended lasts until end_ns."""
    intervals: list[FaultInterval] = []
    in_place: list[tuple[Op, str]] = []
    begun: Op | None = None
    for op in history:
        if op.process != NEMESIS or op.f == AWAIT or op.value in OUR_MARKS:
            continue
        if op.f == MARK:
            intervals.append(FaultInterval(label_of(op), op.time_ns, op.time_ns))
        elif begun is None or begun.f != op.f:
            begun = op
            if op.f not in ops.heals | ops.momentary:
                in_place.append((op, label_of(op)))
        else:
            if op.f in ops.heals:
                intervals += _ended(in_place, op, ops)
            elif op.f in ops.momentary:
                intervals.append(FaultInterval(label_of(op), begun.time_ns, op.time_ns))
            elif op.error is None:
                in_place[-1] = (begun, label_of(op))
            begun = None
    intervals += [FaultInterval(label, fault.time_ns, end_ns) for fault, label in in_place]
    return tuple(sorted(intervals, key=lambda interval: (interval.start_ns, interval.end_ns)))


def _ended(in_place: list[tuple[Op, str]], healer: Op, ops: NemesisOps) -> list[FaultInterval]:
    """The intervals that an operation ends, which are removed from those in place."""
    ended = [each for each in in_place if healer.f == HEAL or each[0].f in ops.ends[healer.f]]
    in_place[:] = [each for each in in_place if each not in ended]
    return [FaultInterval(label, fault.time_ns, healer.time_ns) for fault, label in ended]


def label_of(op: Op) -> str:
    """A nemesis operation in words: its value where that is text or has a `label`, else its name and value."""
    value: Any = op.value.get("label", op.value) if isinstance(op.value, dict) else op.value
    if value is None:
        text = op.f
    elif isinstance(value, str):
        text = value
    else:
        text = f"{op.f} {json.dumps(value, ensure_ascii=False)}"
    return text if len(text) <= LABEL_LENGTH_MAX else text[: LABEL_LENGTH_MAX - 1] + "…"


def spans_of(intervals: Iterable[FaultInterval]) -> tuple[tuple[int, int], ...]:
    """The times in which any fault was in place, as (start_ns, end_ns) that neither touch nor overlap."""
    spans: list[tuple[int, int]] = []
    for interval in sorted(intervals, key=lambda interval: interval.start_ns):
        if interval.end_ns <= interval.start_ns:
            continue
        if spans and interval.start_ns <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], interval.end_ns))
        else:
            spans.append((interval.start_ns, interval.end_ns))
    return tuple(spans)
