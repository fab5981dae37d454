"""Plain twins of the register kernels: they follow the definitions and try every order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from checkers.kernels.steps import READ_OF, REFUSED_SWAP, SWAP, WRITE_OF


class Operation(NamedTuple):
    """An operation on a register as checkers/kernels/search.py takes it; back is None for a crashed one."""

    call: int
    back: int | None
    code: int
    a: int
    b: int = 0


class Access(NamedTuple):
    """A read or a write as checkers/kernels/promises.py sees it; back is None unless it was acknowledged."""

    call: int
    back: int | None
    is_read: bool
    value: int
    node: int = 0


def linearizable(operations: Sequence[Operation], held: int = 0) -> bool:
    """Whether some order of the operations explains the register: tries every one of them."""
    completed = [operation for operation in operations if operation.back is not None]
    if not completed:
        return True
    soonest = min(operation.back for operation in completed if operation.back is not None)
    for index, operation in enumerate(operations):
        legal, after = applied(operation, held)
        rest = [*operations[:index], *operations[index + 1 :]]
        if operation.call < soonest and legal and linearizable(rest, after):
            return True
    return False


def applied(operation: Operation, held: int) -> tuple[bool, int]:
    """Whether the operation can happen to a register that holds this value, and what it holds then."""
    _, _, code, a, b = operation
    return {
        READ_OF: (a == held, held),
        WRITE_OF: (True, a),
        SWAP: (a == held, b),
        REFUSED_SWAP: (a != held, held),
    }[code]


def known(accesses: Sequence[Access], value: int) -> float:
    """When the write of this value has certainly happened; before everything for the initial value, 0."""
    ends = [access.back for access in accesses if access.value == value and access.back is not None]
    return -1 if value == 0 else min(ends, default=float("inf"))


def called(accesses: Sequence[Access], value: int) -> float:
    """When the write of this value was invoked."""
    calls = [access.call for access in accesses if access.value == value and not access.is_read]
    return -1 if value == 0 else min(calls, default=float("inf"))


def phantoms(accesses: Sequence[Access]) -> list[Access]:
    """Completed reads of a value whose write had not begun when they ended."""
    return [read for read in completed_reads(accesses) if called(accesses, read.value) > (read.back or 0)]


def backwards(accesses: Sequence[Access]) -> list[Access]:
    """Reads that return, on the node of an earlier read, a value certainly older than that read's."""
    reads = [read for read in completed_reads(accesses) if read not in phantoms(accesses)]
    return [
        later
        for later in reads
        if any(
            earlier.node == later.node
            and (earlier.back or 0) < later.call
            and known(accesses, later.value) < called(accesses, earlier.value)
            for earlier in reads
        )
    ]


def staleness(accesses: Sequence[Access]) -> dict[Access, int]:
    """Stale reads, each with the acknowledgement that was the first to make it stale."""
    found = {}
    for read in [read for read in completed_reads(accesses) if read not in phantoms(accesses)]:
        newer = [
            write.back
            for write in accesses
            if not write.is_read
            and write.back is not None
            and write.back < read.call
            and known(accesses, read.value) < write.call
        ]
        if newer:
            found[read] = min(newer)
    return found


def completed_reads(accesses: Sequence[Access]) -> list[Access]:
    """The reads that returned, in order of their ends."""
    return sorted(
        (access for access in accesses if access.is_read and access.back is not None), key=lambda read: read.back or 0
    )
