"""Linearizability of a register whose written values are unique, in linear time (Gibbons and Korach, 1997).

All operations on one value (its write and its completed reads) are contiguous in any valid order. Let f be their first
return and s their last call. If f < s the value must hold during [f, s], its forward zone; otherwise it can hold at any
one time of [s, f], its backward zone. An order exists if and only if no read returns before its value's write begins,
no two forward zones overlap, and no backward zone lies inside a forward zone. The write of an unacknowledged value that
was never read is left out: it need not have happened.

The initial value, NIL, is a write before the first row. search.py handles the general case.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from checkers.kernels.rows import FAIL, INVOKE, NEVER, NIL, NOBODY, OK, READ, WRITE, Rows, outcome

VALID, NEVER_WRITTEN, FUTURE_READ, ZONES_CROSS, ZONE_INSIDE, NOT_UNIQUE = 0, 1, 2, 3, 4, 5
"""Verdicts on a key. NOT_UNIQUE: a value was written twice, or there is a compare-and-set; other algorithms decide."""

WITNESSES = 4


@njit(cache=True)
def judge_registers(starts: Rows, kind: Rows, f: Rows, value: Rows, partner: Rows, values: int) -> tuple[Rows, Rows]:
    """Check each key, rows starts[i] to starts[i + 1]; values is one more than the highest value number.

    Returns a verdict for each key and up to four witness rows for each (NOBODY where fewer).
    """
    keys = starts.shape[0] - 1
    verdicts = np.zeros(keys, np.uint8)
    witnesses = np.full((keys, WITNESSES), NOBODY, np.int64)
    called = np.full(values, NEVER, np.int64)
    zone_from = np.full(values, NEVER, np.int64)
    zone_to = np.full(values, NOBODY, np.int64)
    for key in range(keys):
        first, last = starts[key], starts[key + 1]
        order = np.empty(min(last - first, values) + 1, np.int64)
        verdict, seen = collect_zones(
            first, last, kind, f, value, partner, called, zone_from, zone_to, order, witnesses[key]
        )
        if verdict == VALID:
            verdict = compare(order[:seen], zone_from, zone_to, witnesses[key])
        verdicts[key] = verdict
        clear(first, last, value, called, zone_from, zone_to)
    return verdicts, witnesses


@njit(cache=True)
def collect_zones(
    first: int, last: int, kind: Rows, f: Rows, value: Rows, partner: Rows,
    called: Rows, zone_from: Rows, zone_to: Rows, order: Rows, witness: Rows,
) -> tuple[int, int]:  # fmt: skip
    """Fill in each value's zone, and order with the values by their first return; returns (verdict, values)."""
    called[NIL], zone_from[NIL] = NOBODY, NOBODY
    order[0], seen = NIL, 1
    for row in range(first, last):
        if f[row] != READ and f[row] != WRITE:
            return NOT_UNIQUE, seen
        if kind[row] == INVOKE:
            ended = outcome(kind, partner, row)
            if f[row] == WRITE and ended != FAIL:
                if called[value[row]] != NEVER:
                    return NOT_UNIQUE, seen
                called[value[row]] = row
                zone_to[value[row]] = row
            elif f[row] == READ and ended == OK:
                zone_to[value[partner[row]]] = row
        elif kind[row] == OK and partner[row] != NOBODY:
            # A write's value is in its invocation.
            held = value[partner[row]] if f[row] == WRITE else value[row]
            if zone_from[held] == NEVER:
                zone_from[held] = row
                order[seen] = held
                seen += 1
            if called[held] == NEVER:
                return missing_write(row, last, kind, f, value, partner, witness), seen
    return VALID, seen


@njit(cache=True)
def missing_write(read: int, last: int, kind: Rows, f: Rows, value: Rows, partner: Rows, witness: Rows) -> int:
    """The verdict on a read of a value whose write had not begun: written later, never, or not decidable here."""
    witness[0] = read
    for row in range(read, last):
        if (
            kind[row] == INVOKE
            and f[row] == WRITE
            and value[row] == value[read]
            and outcome(kind, partner, row) != FAIL
        ):
            witness[1] = row
            return FUTURE_READ
        if f[row] != READ and f[row] != WRITE:
            return NOT_UNIQUE
    return NEVER_WRITTEN


@njit(cache=True)
def compare(order: Rows, zone_from: Rows, zone_to: Rows, witness: Rows) -> int:
    """Compare the zones of the values, in order of their first returns; returns a verdict."""
    forward = np.empty(order.shape[0], np.int64)
    count = 0
    for held in order:
        if zone_from[held] >= zone_to[held]:
            continue
        if count and zone_from[held] < zone_to[forward[count - 1]]:
            note_bounds(witness, zone_from, zone_to, forward[count - 1], held)
            return ZONES_CROSS
        forward[count] = held
        count += 1
    at = 0
    for held in order:
        if zone_from[held] < zone_to[held]:
            continue
        # Forward zones do not overlap, so only the first that ends after this backward zone can hold it.
        while at < count and zone_to[forward[at]] <= zone_from[held]:
            at += 1
        if at < count and zone_from[forward[at]] < zone_to[held]:
            note_bounds(witness, zone_from, zone_to, forward[at], held)
            return ZONE_INSIDE
    return VALID


@njit(cache=True)
def note_bounds(witness: Rows, zone_from: Rows, zone_to: Rows, one: int, other: int) -> None:
    """Record the rows that bound two values' zones: each value must hold before the other."""
    witness[0], witness[1] = zone_from[one], zone_to[one]
    witness[2], witness[3] = zone_from[other], zone_to[other]


@njit(cache=True)
def clear(first: int, last: int, value: Rows, called: Rows, zone_from: Rows, zone_to: Rows) -> None:
    """Reset the per-value arrays where this key changed them."""
    called[NIL], zone_from[NIL], zone_to[NIL] = NEVER, NEVER, NOBODY
    for row in range(first, last):
        held = value[row]
        called[held], zone_from[held], zone_to[held] = NEVER, NEVER, NOBODY
