"""Which simulated runs are worth a closer look: a broken invariant, faults without effect, stale reads.

    reason_to_store(outcome)        # "stale-read", or None

A screen of thousands of runs, in one pass over each history. It knows registers whose written values are unique, and
reports no read that a linearizable register may return, nor any where nodes answer from their own state. What it does
not see, the checks on Spark may, on the sample of runs that is stored anyway.

Contains the screen. Does not contain verdicts: a run that does not pass it is simulated again, stored and judged like
any other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.model import NEMESIS, Op
from harness.model.nemesis_ops import AWAIT
from harness.planning.workloads import workload_of
from harness.simulating.simulation import Outcome
from nodes.simulation.schedule import NO_SPIN, WHY_UNRECOVERED

STALE_READ, NO_EXCEPTION, NO_RECOVERY = "stale-read", "no-exception", "no-recovery"
REGISTER = "register"
"""The check of registers whose reads are linearizable; a Kafka controller answers from its own image."""


@dataclass(frozen=True, slots=True)
class Screened:
    """A simulated run: why it did not pass the screen, None if it did; and how much it covered.

    seconds is the real time since its process began with the batch that it belongs to.
    """

    seed: int
    reason: str | None
    digest: str
    virtual_ms: int
    operations: int
    seconds: float = 0.0


@dataclass(slots=True)
class _Write:
    """When a value was first and last possibly written; end is None if the write was never acknowledged.

    is_rejected: the client was told that it has had no effect.
    """

    begin: int
    end: int | None = None
    is_rejected: bool = False


@dataclass(frozen=True, slots=True)
class _Read:
    begin: int
    end: int
    value: Any


def reason_to_store(outcome: Outcome) -> str | None:
    """Why a run does not pass, None if it does."""
    broken = [(violation.invariant, violation.message) for violation in outcome.violations]
    has_exits = any(each.kind == "exited" for each in outcome.observations)
    waits = (op.error for op in outcome.history if op.process == NEMESIS and op.f == AWAIT)
    unrecovered = next((_why(error) for error in waits if error is not None), None)
    if (reason := reason_of(broken, has_exits, unrecovered)) is not None:
        return reason
    is_linearizable = REGISTER in workload_of(outcome.plan).checks
    return STALE_READ if is_linearizable and any(True for _ in stale_reads(outcome.history)) else None


def reason_of(broken: Sequence[tuple[str, str]], has_exits: bool, unrecovered: str | None) -> str | None:
    """Why a run does not pass, by its broken invariants, the processes that ended with an exception, and its end.

    unrecovered: why no leader has committed after the faults, "" if that is not known, None if one has.
    An exception is part of the reason, but for the numbers and values in its message: each is of a defect of its own.
    """
    for invariant, message in broken:
        if invariant != NO_SPIN:
            return f"{invariant}: {_kind_of(message)}" if invariant == NO_EXCEPTION else invariant
    if has_exits:
        return "server-exited"
    if unrecovered is not None:
        return f"{NO_RECOVERY}: {unrecovered}" if unrecovered else NO_RECOVERY
    return NO_SPIN if broken else None


def _why(error: str) -> str:
    """What the wait of a timed run says of the quorum; a wait of another run says nothing of it."""
    return next((why for why in WHY_UNRECOVERED if error.endswith(why)), "")


def _kind_of(exception: str) -> str:
    """The class and the beginning of the message."""
    text = re.split(r" in \w+\.java|[\d(\[{]", exception, maxsplit=1)[0]
    return re.sub(r"^(\w+\.)+", "", text).strip()


def stale_reads(history: Iterable[Op]) -> Iterator[str]:
    """Each register with a read that no order of its operations explains.

    Such a read returns a value that was certainly overwritten before it began: another write began after the value's
    write, or its first read, had ended, and was itself acknowledged or read before this read began. Or it returns a
    value whose write had not begun when it ended, or was rejected (Herlihy and Wing, 1990; for unique values, Gibbons
    and Korach, 1997).
    """
    writes: dict[str, dict[Any, _Write]] = defaultdict(dict)
    reads: dict[str, list[_Read]] = defaultdict(list)
    open_ops: dict[int, Op] = {}
    for op in history:
        if op.process == NEMESIS or op.key is None:
            continue
        if op.type == "invoke":
            open_ops[op.process] = op
            if op.f == "write":
                writes[op.key][op.value] = _Write(op.index)
            continue
        invocation = open_ops.pop(op.process, None)
        if op.type == "fail" and op.f == "write":
            writes[op.key][op.value].is_rejected = True
        if op.type != "ok" or invocation is None:
            continue
        if op.f == "write":
            writes[op.key][op.value].end = op.index
        elif op.f == "read":
            reads[op.key].append(_Read(invocation.index, op.index, op.value))
    for key, of_key in reads.items():
        if _has_stale_read(writes[key], of_key):
            yield key


def _has_stale_read(writes: dict[Any, _Write], reads: Iterable[_Read]) -> bool:
    """reads are in the order of their ends."""
    done: dict[Any, int] = {None: -1}  # when each value was certainly written: the initial one from the beginning on
    for value, write in writes.items():
        if write.end is not None:
            done[value] = write.end
    begun = {value: write.begin for value, write in writes.items()} | {None: -1}
    for read in reads:
        if read.value not in begun or begun[read.value] > read.end:
            return True
        if read.value in writes and writes[read.value].is_rejected:
            return True
        done[read.value] = min(done.get(read.value, read.end), read.end)
    for read in reads:
        for other, other_done in done.items():
            if other != read.value and done[read.value] < begun[other] and other_done < read.begin:
                return True
    return False
