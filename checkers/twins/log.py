"""A plain twin of the log check, for comparison on random histories.

It takes operations as they are, follows the definitions in checkers/kafka_log/client_log.py, and compares everything
with everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from checkers.twins import group_offsets
from checkers.twins.zombies import is_fenced
from harness.model import Op

Found = tuple[str, str, str, tuple[int, ...]]
"""A finding's key, name, severity and witnesses."""


class Event(NamedTuple):
    """A record in one row of an operation: the row, its call, the process's assignments so far, offset and value."""

    op: Op
    call: int
    assignments: tuple[str, ...]
    offset: int | None
    value: int

    @property
    def is_read(self) -> bool:
        """Whether an ok operation read it."""
        return self.op.f != "send" and self.op.type == "ok"

    def sent(self, kind: str) -> bool:
        """Whether it is a row of this type of a send; an ok of the leader alone is no better than an info."""
        return self.op.f == "send" and kind == ("info" if self.is_by_leader else self.op.type)

    @property
    def is_by_leader(self) -> bool:
        """Whether the leader alone acknowledged its send (acks=1)."""
        listed = self.op.value if isinstance(self.op.value, list) else [self.op.value]
        is_send = self.op.f == "send" and self.op.type == "ok"
        return is_send and any(isinstance(one, dict) and "acks" in one for one in listed)


def findings(ops: Sequence[Op]) -> list[Found]:
    """Every finding of every key, in no order."""
    keys = {key for op in ops if op.process >= 0 for key, _, _ in records(op)}
    of_records = [found for key in keys for found in findings_of(key, list(events_of(key, ops)), drains_of(key, ops))]
    return [*of_records, *group_offsets.findings(ops)]


def records(op: Op) -> list[tuple[str, int | None, int]]:
    """The key, offset and value of each record in an operation's row."""
    if op.value is None or op.f not in ("send", "poll", "drain"):
        return []
    if op.f == "poll":
        return [(key, offset, value) for key, pairs in op.value.items() for offset, value in pairs]
    if op.f == "drain":
        return [(str(op.key), offset, value) for offset, value in op.value]
    listed: list[Any] = op.value if isinstance(op.value, list) else [op.value]
    placed = [(one["offset"], one["value"]) if isinstance(one, dict) else (None, one) for one in listed]
    return [(str(op.key), offset, value) for offset, value in placed]


def events_of(key: str, ops: Sequence[Op]) -> Iterator[Event]:
    """The records of this key, row by row."""
    calls: dict[int, int] = {}
    assignments: dict[int, tuple[str, ...]] = {}
    for op in ops:
        if op.type == "invoke":
            calls[op.process] = op.index
        if op.type == "ok" and op.f in ("assign", "subscribe"):
            assignments[op.process] = (*assignments.get(op.process, ()), op.f)
        for of, offset, value in records(op):
            if of == key:
                yield Event(op, calls.get(op.process, op.index), assignments.get(op.process, ()), offset, value)


def drains_of(key: str, ops: Sequence[Op]) -> list[tuple[int, int]]:
    """When each drain of this key that returned was called, and when it returned."""
    ends = [op for op in ops if op.f == "drain" and op.type == "ok" and op.key == key]
    own = {end.index: [op.index for op in ops if op.process == end.process and op.index < end.index] for end in ends}
    return [(max(before), end) for end, before in own.items()]


def findings_of(key: str, events: Sequence[Event], drains: Sequence[tuple[int, int]]) -> Iterator[Found]:
    """Every finding of one key."""
    again = repeated(events)
    for name, severity, *ends in again or [*rules(events), *undrained(events, drains), *vanished(events, drains)]:
        yield key, name, severity, tuple(sorted({index for end in ends for index in span(end)}))


def rules(events: Sequence[Event]) -> Iterator[tuple]:
    """The findings that do not depend on drains."""
    yield from contents(events)
    yield from outcomes(events)
    yield from orders(events)


def span(end: Event | tuple[int, int]) -> tuple[int, int]:
    """The call of an event's operation, and the event's row."""
    return (end.call, end.op.index) if isinstance(end, Event) else end


def repeated(events: Sequence[Event]) -> list[tuple]:
    """Values that were sent twice."""
    sends: dict[int, list[Event]] = {}
    for one in events:
        if one.sent("invoke"):
            sends.setdefault(one.value, []).append(one)
    return [("values-not-unique", "unknown", *same[:2]) for same in sends.values() if len(same) > 1]


def placed(events: Sequence[Event]) -> list[Event]:
    """The events that place a value: all reads, and sends that are ok, or info if a read shows the value."""
    shown = {one.value for one in events if one.op.f != "send"}
    return [
        one
        for one in events
        if one.offset is not None
        and (one.op.f != "send" or one.sent("ok") or (one.sent("info") and one.value in shown))
    ]


def contents(events: Sequence[Event]) -> Iterator[tuple]:
    """Offsets of two values, and values at two offsets."""
    where = placed(events)
    for name, of, differs in (("inconsistent-offsets", "offset", "value"), ("duplicate", "value", "offset")):
        for common in {getattr(one, of) for one in where}:
            same = [one for one in where if getattr(one, of) == common]
            others = [one for one in same if getattr(one, differs) != getattr(same[0], differs)]
            if others:
                yield name, "invalid", same[0], others[0]


def outcomes(events: Sequence[Event]) -> Iterator[tuple]:
    """The outcome of each value: lost, read though its send failed, read before its send began."""
    reads = [one for one in events if one.is_read]
    highest = next((one for one in reads if one.offset == max(each.offset or 0 for each in reads)), None)
    for value in {one.value for one in events}:
        same = [one for one in events if one.value == value]
        acked = next((one for one in same if one.sent("ok")), None)
        failed = next((one for one in same if one.sent("fail")), None)
        begun = next((one for one in same if one.sent("invoke")), None)
        read = next((one for one in same if one.is_read), None)
        shown = next((one for one in same if one.op.f != "send"), None)
        if acked and not read and highest and acked.offset is not None and acked.offset <= (highest.offset or 0):
            yield "lost-write", "invalid", acked, highest
        if failed and read:
            yield "zombie-write" if is_fenced(failed.op.error) else "aborted-read", "invalid", failed, read
        if shown and (begun is None or shown.op.index < begun.op.index):
            yield "phantom-read", "invalid", shown, *([begun] if begun else [])


def orders(events: Sequence[Event]) -> Iterator[tuple]:
    """Records out of order, within an operation, between operations of a process, and in real time."""
    known = sorted({one.offset for one in placed(events) if one.offset is not None})
    ranks: dict[int | None, int] = {offset: rank for rank, offset in enumerate(known)}
    acked = [one for one in events if one.sent("ok") and one.offset is not None]
    reads = [one for one in events if one.is_read]
    polls = [one for one in reads if one.op.f == "poll"]
    for before, after in [*pairwise(reads), *pairwise(acked)]:
        if before.op is after.op:
            yield from stepped("int-", ranks, before, after)
    for process in {one.op.process for one in events}:
        for before, after in pairwise([one for one in polls if one.op.process == process]):
            if before.op is not after.op and before.assignments == after.assignments:
                yield from stepped("", ranks, before, after)
        for before, after in pairwise([one for one in acked if one.op.process == process]):
            if before.op is not after.op and ranks[after.offset] - ranks[before.offset] < 1:
                yield "nonmonotonic-send", "invalid", before, after
    yield from late(events, acked)


def stepped(inside: str, ranks: dict, before: Event, after: Event) -> Iterator[tuple]:
    """One step whose delta is not 1."""
    delta, f = ranks[after.offset] - ranks[before.offset], "send" if after.op.f == "send" else "poll"
    excused = f == "poll" and after.assignments[-1:] == ("subscribe",)
    if delta > 1:
        yield f"{inside}{f}-skip", "tolerated" if excused or f == "send" else "invalid", before, after
    if delta < 1:
        yield f"{inside}nonmonotonic-{f}", "tolerated" if excused else "invalid", before, after


def late(events: Sequence[Event], acked: Sequence[Event]) -> Iterator[tuple]:
    """Records before others that were acknowledged before the records' sends began."""
    for begun in [one for one in events if one.sent("invoke")]:
        same = [one for one in events if one.value == begun.value]
        known = [one for one in same if one.sent("ok")]
        if not known and not any(one.sent("fail") for one in same):
            known = [one for one in same if one.op.f != "send"]
        if not known or known[0].offset is None:
            continue
        before = [one for one in acked if one.op.index < begun.op.index]
        highest = max(before, key=lambda one: one.offset or 0, default=None)
        if highest is not None and (highest.offset or 0) > known[0].offset:
            yield "nonlinearizable-log", "invalid", highest, known[0]


def vanished(events: Sequence[Event], drains: Sequence[tuple[int, int]]) -> Iterator[tuple]:
    """Values that were acknowledged or read before the last drain began, and read, though not by it."""
    last = max(drains, default=(-1, -1))
    for value in {one.value for one in events if one.is_read}:
        same = [one for one in events if one.value == value]
        drained = [one for one in same if one.op.index == last[1]]
        proof = next((one for one in same if one.sent("ok")), next(one for one in same if one.is_read))
        if not drained and proof.op.index < last[0]:
            yield "lost-write", "invalid", proof, last


def undrained(events: Sequence[Event], drains: Sequence[tuple[int, int]]) -> Iterator[tuple]:
    """Acknowledged values that no read returned, the last drain included; or the last drain began before them."""
    last = max(drains, default=(-1, -1))
    acked = [one for one in events if one.sent("ok")]
    read = {one.value for one in events if one.is_read}
    for one in acked:
        if one.value not in read and one.op.index < last[0]:
            yield "unseen", "invalid", one, last
    if [one for one in acked if one.op.index > last[0]]:
        yield "not-drained", "unknown", acked[-1]
