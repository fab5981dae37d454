"""Linearizability of a register with compare-and-sets whose new values are unique, in the time of one sort.

A compare-and-set from a to b that takes effect ties b to a: only reads of a come between them. So the values form
chains, each from a plain write or the initial value along its compare-and-sets, and the order within a chain is fixed:
a write, the reads of its value, the next compare-and-set, its reads. In any valid order a chain is contiguous, like a
single value in zones.py, and chains are compared as values are there.

A crashed write or compare-and-set is left out unless its new value was read, or was the expected value of a
compare-and-set that is kept. A refused compare-and-set proves only that a value was absent, which this algorithm cannot
use. Keys with values written twice are left to search.py.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from checkers.kernels.rows import NEVER, NIL, NOBODY, Rows, leaf
from checkers.kernels.steps import READ_OF, REFUSED_SWAP, SWAP, WRITE_OF, Operations
from checkers.kernels.zones import NEVER_WRITTEN, NOT_UNIQUE, VALID, compare

SWAPPED_TWICE, CIRCLE, OUT_OF_ORDER = 10, 11, 12
"""Verdicts in addition to those of zones.py. SWAPPED_TWICE: two compare-and-sets replaced the same value. CIRCLE:
compare-and-sets need each other's new values. OUT_OF_ORDER: the second of two operations in a chain returned before the
first was called."""

WRITER, NEXT, FIRST_READ, LAST_READ = 0, 1, 2, 3
"""By value: the operation that wrote it, the compare-and-set that replaced it, the read of it that returned first, the
read of it that was called last; NOBODY for none."""

BY_VALUE = 4


@njit(cache=True)
def judge_chains(operations: Operations, scratch: Rows, witness: Rows) -> int:
    """Check one key's operations; returns a verdict.

    scratch has BY_VALUE columns for each value number, all NOBODY before and after. witness takes up to four rows of
    history: as in zones.py for its verdicts, else the invocations of the contradicting operations.
    """
    total = operations.call.shape[0] + 1
    zone_from, zone_to = np.empty(total, np.int64), np.empty(total, np.int64)
    verdict = link(operations, scratch, witness)
    if verdict == VALID:
        verdict, chains = walk(operations, scratch, zone_from, zone_to, witness)
        if verdict == VALID:
            verdict = compare(np.argsort(zone_from[:chains]), zone_from, zone_to, witness)
    clear(operations, scratch)
    return verdict


@leaf
def link(operations: Operations, scratch: Rows, witness: Rows) -> int:
    """Fill in scratch, with NEXT for the compare-and-sets that are kept; VALID if the values form chains."""
    call, back, code, a, b = operations.call, operations.back, operations.code, operations.a, operations.b
    for one in range(call.shape[0]):
        if code[one] == READ_OF:
            first = scratch[a[one], FIRST_READ]
            if first == NOBODY or back[one] < back[first]:
                scratch[a[one], FIRST_READ] = one
            scratch[a[one], LAST_READ] = one
            continue
        new = a[one] if code[one] == WRITE_OF else b[one]
        if code[one] == REFUSED_SWAP or new == NIL or scratch[new, WRITER] != NOBODY:
            return NOT_UNIQUE
        scratch[new, WRITER] = one
    for one in range(call.shape[0]):
        if code[one] == READ_OF:
            if a[one] != NIL and scratch[a[one], WRITER] == NOBODY:
                witness[0] = call[one]
                return NEVER_WRITTEN
        elif code[one] == SWAP and (back[one] != NEVER or scratch[b[one], FIRST_READ] != NOBODY):
            verdict = keep(one, operations, scratch, witness)
            if verdict != VALID:
                return verdict
    return VALID


@leaf
def keep(one: int, operations: Operations, scratch: Rows, witness: Rows) -> int:
    """Link a compare-and-set to the value that it replaced, then that value's writer likewise, and so on."""
    while one != NOBODY and operations.code[one] == SWAP:
        expected = operations.a[one]
        successor = scratch[expected, NEXT]
        if successor == one:
            break
        if successor != NOBODY:
            witness[0], witness[1] = operations.call[successor], operations.call[one]
            return SWAPPED_TWICE
        if expected != NIL and scratch[expected, WRITER] == NOBODY:
            witness[0] = operations.call[one]
            return NEVER_WRITTEN
        scratch[expected, NEXT] = one
        one = scratch[expected, WRITER]
    return VALID


@leaf
def walk(operations: Operations, scratch: Rows, zone_from: Rows, zone_to: Rows, witness: Rows) -> tuple[int, int]:
    """The zone of each chain: its first return, its last invocation; and how many chains there are."""
    code, a, b = operations.code, operations.a, operations.b
    chains = 0
    for one in range(-1, code.shape[0]):
        if one != NOBODY and not begins_a_chain(one, operations, scratch):
            continue
        value = NIL if one == NOBODY else a[one]
        zone_from[chains] = NOBODY if one == NOBODY else NEVER
        zone_to[chains] = NOBODY
        while value != NOBODY:
            if not extend(value, chains, operations, scratch, zone_from, zone_to, witness):
                return OUT_OF_ORDER, chains
            successor = scratch[value, NEXT]
            scratch[value, WRITER] = NOBODY
            value = NOBODY if successor == NOBODY else b[successor]
        chains += 1
    for one in range(code.shape[0]):
        # Compare-and-sets that no chain reached form a circle.
        if code[one] == SWAP and scratch[a[one], NEXT] == one and scratch[b[one], WRITER] != NOBODY:
            witness[0] = operations.call[one]
            return CIRCLE, chains
    return VALID, chains


@leaf
def begins_a_chain(one: int, operations: Operations, scratch: Rows) -> bool:
    """Whether this is a plain write that is kept."""
    if operations.code[one] != WRITE_OF:
        return False
    value = operations.a[one]
    return bool(operations.back[one] != NEVER or scratch[value, FIRST_READ] != NOBODY or scratch[value, NEXT] != NOBODY)


@leaf
def extend(
    value: int, chain: int, operations: Operations, scratch: Rows, zone_from: Rows, zone_to: Rows, witness: Rows
) -> bool:
    """Add a value's write and reads to its chain's zone; False if one returned before its predecessor was called."""
    for which in (WRITER, FIRST_READ):
        one = scratch[value, which]
        if one == NOBODY:
            continue
        if operations.back[one] < zone_to[chain]:
            witness[0], witness[1] = operations.call[one], zone_to[chain]
            return False
        zone_from[chain] = min(zone_from[chain], operations.back[one])
        last = one if which == WRITER else scratch[value, LAST_READ]
        zone_to[chain] = max(zone_to[chain], operations.call[last])
    return True


@leaf
def clear(operations: Operations, scratch: Rows) -> None:
    """Reset scratch where this key changed it."""
    for one in range(operations.call.shape[0]):
        for column in range(BY_VALUE):
            scratch[operations.a[one], column] = NOBODY
            scratch[operations.b[one], column] = NOBODY
