"""A deliberately plain twin of the log check, for the tests to compare with on random histories.

It takes operations as they are, follows the definitions in log.py word for word, compares everything with everything
and knows nothing of Spark or arrays. What may live here: such a twin. What may not: anything that a check calls.
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


class Told(NamedTuple):
    """A record as one operation tells it: whose, since when, until when, in which of its assignments, what and how."""

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
        """Whether it is this row of a send."""
        return self.op.f == "send" and self.op.type == kind


def findings(ops: Sequence[Op]) -> list[Found]:
    """Every finding of every key, in no order."""
    keys = {key for op in ops if op.process >= 0 for key, _, _ in records(op)}
    of_records = [found for key in keys for found in findings_of(key, list(told_of(key, ops)), drains_of(key, ops))]
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


def told_of(key: str, ops: Sequence[Op]) -> Iterator[Told]:
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
                yield Told(op, calls.get(op.process, op.index), assignments.get(op.process, ()), offset, value)


def drains_of(key: str, ops: Sequence[Op]) -> list[tuple[int, int]]:
    """When each drain of this key that returned was called, and when it returned."""
    ends = [op for op in ops if op.f == "drain" and op.type == "ok" and op.key == key]
    own = {end.index: [op.index for op in ops if op.process == end.process and op.index < end.index] for end in ends}
    return [(max(before), end) for end, before in own.items()]


def findings_of(key: str, told: Sequence[Told], drains: Sequence[tuple[int, int]]) -> Iterator[Found]:
    """Every finding of one key."""
    again = repeated(told)
    for name, severity, *ends in again or [*rules(told), *undrained(told, drains), *vanished(told, drains)]:
        yield key, name, severity, tuple(sorted({index for end in ends for index in span(end)}))


def rules(told: Sequence[Told]) -> Iterator[tuple]:
    """What is told without a look at the drains."""
    yield from contents(told)
    yield from fates(told)
    yield from orders(told)


def span(end: Told | tuple[int, int]) -> tuple[int, int]:
    """When an event's operation was called, and the row that tells it."""
    return (end.call, end.op.index) if isinstance(end, Told) else end


def repeated(told: Sequence[Told]) -> list[tuple]:
    """Values that were sent twice."""
    sends: dict[int, list[Told]] = {}
    for one in told:
        if one.sent("invoke"):
            sends.setdefault(one.value, []).append(one)
    return [("values-not-unique", "unknown", *same[:2]) for same in sends.values() if len(same) > 1]


def placed(told: Sequence[Told]) -> list[Told]:
    """What tells where a value is: reads of any end, sends if ok, or if unknown and a read shows the value."""
    shown = {one.value for one in told if one.op.f != "send"}
    return [
        one
        for one in told
        if one.offset is not None
        and (one.op.f != "send" or one.sent("ok") or (one.sent("info") and one.value in shown))
    ]


def contents(told: Sequence[Told]) -> Iterator[tuple]:
    """Offsets of two values, and values at two offsets."""
    where = placed(told)
    for name, of, differs in (("inconsistent-offsets", "offset", "value"), ("duplicate", "value", "offset")):
        for common in {getattr(one, of) for one in where}:
            same = [one for one in where if getattr(one, of) == common]
            others = [one for one in same if getattr(one, differs) != getattr(same[0], differs)]
            if others:
                yield name, "invalid", same[0], others[0]


def fates(told: Sequence[Told]) -> Iterator[tuple]:
    """What became of each value: lost, read though its send failed, read though nobody had begun to send it."""
    reads = [one for one in told if one.is_read]
    highest = next((one for one in reads if one.offset == max(each.offset or 0 for each in reads)), None)
    for value in {one.value for one in told}:
        mine = [one for one in told if one.value == value]
        acked = next((one for one in mine if one.sent("ok")), None)
        failed = next((one for one in mine if one.sent("fail")), None)
        begun = next((one for one in mine if one.sent("invoke")), None)
        read = next((one for one in mine if one.is_read), None)
        shown = next((one for one in mine if one.op.f != "send"), None)
        if acked and not read and highest and acked.offset is not None and acked.offset <= (highest.offset or 0):
            yield "lost-write", "invalid", acked, highest
        if failed and read:
            yield "zombie-write" if is_fenced(failed.op.error) else "aborted-read", "invalid", failed, read
        if shown and (begun is None or shown.op.index < begun.op.index):
            yield "phantom-read", "invalid", shown, *([begun] if begun else [])


def orders(told: Sequence[Told]) -> Iterator[tuple]:
    """Records out of their order, in an operation, from one of a process to its next, and in real time."""
    known = sorted({one.offset for one in placed(told) if one.offset is not None})
    ranks: dict[int | None, int] = {offset: rank for rank, offset in enumerate(known)}
    acked = [one for one in told if one.sent("ok") and one.offset is not None]
    reads = [one for one in told if one.is_read]
    polls = [one for one in reads if one.op.f == "poll"]
    for before, after in [*pairwise(reads), *pairwise(acked)]:
        if before.op is after.op:
            yield from stepped("int-", ranks, before, after)
    for process in {one.op.process for one in told}:
        for before, after in pairwise([one for one in polls if one.op.process == process]):
            if before.op is not after.op and before.assignments == after.assignments:
                yield from stepped("", ranks, before, after)
        for before, after in pairwise([one for one in acked if one.op.process == process]):
            if before.op is not after.op and ranks[after.offset] - ranks[before.offset] < 1:
                yield "nonmonotonic-send", "invalid", before, after
    yield from late(told, acked)


def stepped(inside: str, ranks: dict, before: Told, after: Told) -> Iterator[tuple]:
    """One step whose delta is not 1."""
    delta, f = ranks[after.offset] - ranks[before.offset], "send" if after.op.f == "send" else "poll"
    excused = f == "poll" and after.assignments[-1:] == ("subscribe",)
    if delta > 1:
        yield f"{inside}{f}-skip", "tolerated" if excused or f == "send" else "invalid", before, after
    if delta < 1:
        yield f"{inside}nonmonotonic-{f}", "tolerated" if excused else "invalid", before, after


def late(told: Sequence[Told], acked: Sequence[Told]) -> Iterator[tuple]:
    """Records behind which others stand that were acknowledged before they were begun to be sent."""
    for begun in [one for one in told if one.sent("invoke")]:
        mine = [one for one in told if one.value == begun.value]
        known = [one for one in mine if one.sent("ok")]
        if not known and not any(one.sent("fail") for one in mine):
            known = [one for one in mine if one.op.f != "send"]
        if not known or known[0].offset is None:
            continue
        before = [one for one in acked if one.op.index < begun.op.index]
        highest = max(before, key=lambda one: one.offset or 0, default=None)
        if highest is not None and (highest.offset or 0) > known[0].offset:
            yield "nonlinearizable-log", "invalid", highest, known[0]


def vanished(told: Sequence[Told], drains: Sequence[tuple[int, int]]) -> Iterator[tuple]:
    """Values that were acknowledged or read before the last drain began, and read, though not by it."""
    last = max(drains, default=(-1, -1))
    for value in {one.value for one in told if one.is_read}:
        mine = [one for one in told if one.value == value]
        drained = [one for one in mine if one.op.index == last[1]]
        proof = next((one for one in mine if one.sent("ok")), next(one for one in mine if one.is_read))
        if not drained and proof.op.index < last[0]:
            yield "lost-write", "invalid", proof, last


def undrained(told: Sequence[Told], drains: Sequence[tuple[int, int]]) -> Iterator[tuple]:
    """Acknowledged values that nobody read though the last drain began after them; or that none began after them."""
    last = max(drains, default=(-1, -1))
    acked = [one for one in told if one.sent("ok")]
    read = {one.value for one in told if one.is_read}
    for one in acked:
        if one.value not in read and one.op.index < last[0]:
            yield "unseen", "invalid", one, last
    if [one for one in acked if one.op.index > last[0]]:
        yield "not-drained", "unknown", acked[-1]
