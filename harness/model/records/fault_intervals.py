"""When which fault was in place: bands from the nemesis's rows of history.

A deed is two rows of process NEMESIS: begun, and done with its outcome. A fault's band begins when its deed begins
and ends when the deed that ends it is done; ENDS says which deed ends which. Any deed that is not named there opens a
band of its own, and a mark is a moment. Waiting is no fault,
and the marks that the harness itself sets are no news.

What may live here: pure functions on operations. What may not: reading files, drawing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.model.records.op import NEMESIS, Op
from harness.model.story import FINAL_READS, MARK, STORY_BEGINS

ENDS: Final[Mapping[str, frozenset[str] | None]] = {
    "heal": None,  # every fault that is in place
    "heal_links": frozenset({"cut", "isolate", "partition", "drop"}),
    "start": frozenset({"kill", "stop"}),
    "restart": frozenset({"kill", "stop"}),
    "resume": frozenset({"pause"}),
    "reset_clock": frozenset({"skew", "drift"}),
}
NO_FAULTS: Final = frozenset({"await"})
OUR_MARKS: Final = (STORY_BEGINS, FINAL_READS)
LABEL_LENGTH_MAX: Final = 48


@dataclass(frozen=True, slots=True)
class FaultInterval:
    """A fault was in place from start_ns to end_ns; a moment where both are the same."""

    label: str
    start_ns: int
    end_ns: int


def fault_intervals(history: Iterable[Op], end_ns: int) -> tuple[FaultInterval, ...]:
    """The bands in order of their beginning; a fault that nothing ended lasts until end_ns."""
    bands: list[FaultInterval] = []
    in_place: list[tuple[Op, str]] = []
    begun: Op | None = None
    for op in history:
        if op.process != NEMESIS or op.f in NO_FAULTS or op.value in OUR_MARKS:
            continue
        if op.f == MARK:
            bands.append(FaultInterval(label_of(op), op.time_ns, op.time_ns))
        elif begun is None or begun.f != op.f:
            begun = op
            if op.f not in ENDS:
                in_place.append((op, label_of(op)))
        else:
            if op.f in ENDS:
                bands += _ended(in_place, op)
            elif op.error is None:
                in_place[-1] = (begun, label_of(op))
            begun = None
    bands += [FaultInterval(label, fault.time_ns, end_ns) for fault, label in in_place]
    return tuple(sorted(bands, key=lambda band: (band.start_ns, band.end_ns)))


def _ended(in_place: list[tuple[Op, str]], healer: Op) -> list[FaultInterval]:
    """The bands that a deed ends, taken out of those in place."""
    kinds = ENDS[healer.f]
    ended = [each for each in in_place if kinds is None or each[0].f in kinds]
    in_place[:] = [each for each in in_place if each not in ended]
    return [FaultInterval(label, fault.time_ns, healer.time_ns) for fault, label in ended]


def label_of(op: Op) -> str:
    """A deed in words: its value where that is text, or has a `label`; else its name and value."""
    value: Any = op.value.get("label", op.value) if isinstance(op.value, dict) else op.value
    if value is None:
        text = op.f
    elif isinstance(value, str):
        text = value
    else:
        text = f"{op.f} {json.dumps(value, ensure_ascii=False)}"
    return text if len(text) <= LABEL_LENGTH_MAX else text[: LABEL_LENGTH_MAX - 1] + "…"


def spans_of(bands: Iterable[FaultInterval]) -> tuple[tuple[int, int], ...]:
    """The times in which any fault was in place, as (start_ns, end_ns) that do not touch; moments are none."""
    spans: list[tuple[int, int]] = []
    for band in sorted(bands, key=lambda band: band.start_ns):
        if band.end_ns <= band.start_ns:
            continue
        if spans and band.start_ns <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], band.end_ns))
        else:
            spans.append((band.start_ns, band.end_ns))
    return tuple(spans)
