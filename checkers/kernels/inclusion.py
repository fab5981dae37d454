"""Linearizability of a grow-only set with full reads: the reads fix the order.

Of any two reads one must include the other, so reads are ordered by size. An element was added just before the smallest
read that shows it; one that no read shows, after all reads. That is a total preorder of the operations, and the history
is linearizable if and only if no operation returned before one that precedes it in that order was called.

Repeated adds of an element have no effect: only the first must have begun before a read shows it, and none may have
returned before a read that does not show it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from checkers.kernels.rows import NEVER, NOBODY, Rows

VALID, NEVER_ADDED, APART, OUT_OF_ORDER = 0, 1, 2, 3
"""Verdicts. APART: neither of two reads includes the other."""


class SetHistory(NamedTuple):
    """One key's adds and completed reads in order of invocation: call and back of each (NEVER for a crashed add); the
    element added, NOBODY for a read; and a read's distinct elements, members[offsets[i] : offsets[i + 1]].
    """

    call: Rows
    back: Rows
    element: Rows
    offsets: Rows
    members: Rows


@njit(cache=True)
def judge_set(history: SetHistory, elements: int) -> tuple[int, int, int]:
    """Check one key; returns a verdict and up to two operations that witness it."""
    element, offsets, members = history.element, history.offsets, history.members
    added_by = np.full(elements + 1, NOBODY, np.int64)
    for one in range(element.shape[0]):
        if element[one] != NOBODY and added_by[element[one]] == NOBODY:
            added_by[element[one]] = one
    sizes = np.where(element == NOBODY, offsets[1:] - offsets[:-1], NEVER)
    order = np.argsort(sizes, kind="mergesort")[: np.sum(element == NOBODY)]
    rank = np.full(elements + 1, NEVER, np.int64)
    seen_in = np.full(elements + 1, NOBODY, np.int64)
    for place in range(order.shape[0]):
        read = order[place]
        known = 0
        for at in range(offsets[read], offsets[read + 1]):
            held = members[at]
            if added_by[held] == NOBODY:
                return NEVER_ADDED, read, NOBODY
            known += seen_in[held] == place - 1
            seen_in[held] = place
            if rank[held] == NEVER:
                rank[held] = 2 * sizes[read] - 1
        if place and known < sizes[order[place - 1]]:
            return APART, order[place - 1], read
    ranks = np.where(element == NOBODY, 2 * sizes, rank[element])
    return first_out_of_order(history, ranks, added_by)


@njit(cache=True)
def first_out_of_order(history: SetHistory, ranks: Rows, added_by: Rows) -> tuple[int, int, int]:
    """The first operation called after one of a higher rank had returned, and the latter."""
    call, back, element = history.call, history.back, history.element
    returns = np.argsort(back)
    highest, following = NOBODY, 0
    for one in range(call.shape[0]):
        while following < returns.shape[0] and back[returns[following]] < call[one]:
            other = returns[following]
            if highest == NOBODY or ranks[other] > ranks[highest]:
                highest = other
            following += 1
        is_again = element[one] != NOBODY and added_by[element[one]] != one
        if highest != NOBODY and not is_again and ranks[highest] > ranks[one]:
            return OUT_OF_ORDER, highest, one
    return VALID, NOBODY, NOBODY
