"""A plain twin of the rules on committed offsets: compares every operation with every other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness.model import Op


class OffsetEvent(NamedTuple):
    """The offset of a partition in one operation that ended in ok; -1 if none is committed."""

    key: str
    offset: int
    call: int
    end: int
    is_stale_at_worst: bool


def events_of(ops: Sequence[Op]) -> Iterator[OffsetEvent]:
    """The events in order of the rows."""
    for end in ops:
        if end.type == "ok" and end.f in ("commit", "committed"):
            call = max(op.index for op in ops if op.process == end.process and op.index < end.index)
            for key, offset in end.value.items():
                excused = end.f == "committed" and end.key is None
                yield OffsetEvent(key, -1 if offset is None else offset, call, end.index, excused)


def findings(ops: Sequence[Op]) -> Iterator[tuple[str, str, str, tuple[int, ...]]]:
    """The key, name, severity and witnesses of each finding, in no order."""
    events = list(events_of(ops))
    for later in events:
        before = [one for one in events if one.key == later.key and one.end < later.call]
        highest = max(before, key=lambda one: (one.offset, -one.end), default=later)
        if highest.offset > later.offset:
            name = "stale-committed-offset" if later.is_stale_at_worst else "committed-offset-regression"
            severity = "tolerated" if later.is_stale_at_worst else "invalid"
            yield later.key, name, severity, tuple(sorted((highest.call, highest.end, later.call, later.end)))
