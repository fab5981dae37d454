"""A plain twin of what is said of committed offsets: every operation beside every other.

What may live here: such a twin, for the tests. What may not: anything that a check calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness.model import Op


class Told(NamedTuple):
    """What one operation that ended in ok tells of a partition; -1 where nothing is committed."""

    key: str
    offset: int
    call: int
    end: int
    is_stale_at_worst: bool


def told_of(ops: Sequence[Op]) -> Iterator[Told]:
    """What is told, row by row."""
    for end in ops:
        if end.type == "ok" and end.f in ("commit", "committed"):
            call = max(op.index for op in ops if op.process == end.process and op.index < end.index)
            for key, offset in end.value.items():
                excused = end.f == "committed" and end.key is None
                yield Told(key, -1 if offset is None else offset, call, end.index, excused)


def findings(ops: Sequence[Op]) -> Iterator[tuple[str, str, str, tuple[int, ...]]]:
    """The key, name, severity and witnesses of each finding, in no order."""
    told = list(told_of(ops))
    for late in told:
        before = [one for one in told if one.key == late.key and one.end < late.call]
        highest = max(before, key=lambda one: (one.offset, -one.end), default=late)
        if highest.offset > late.offset:
            name = "stale-committed-offset" if late.is_stale_at_worst else "committed-offset-regression"
            severity = "tolerated" if late.is_stale_at_worst else "invalid"
            yield late.key, name, severity, tuple(sorted((highest.call, highest.end, late.call, late.end)))
