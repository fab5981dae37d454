"""A rank scan: where a specification fixes the order of operations, one pass checks it against real time.

The records of a log have the order of their offsets. The sends agree with it if and only if none begins after a send
with a higher offset was acknowledged. So each call is compared with the highest acknowledged offset. The log's other
rules are in log.py.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from checkers.kernels.rows import NOBODY, Rows

NOTHING = -1
"""The offset of a send without one, and of a drain that found an empty log."""

SPARSE = 4
"""Numbers within a range of at most this many times their count are marked in an array; others are sorted."""


@njit(cache=True)
def overtaken(is_acknowledged: Rows, offset: Rows, value: Rows, first_sent: Rows, place: Rows) -> Rows:
    """Pairs of events, in the order of the later sends: an acknowledgement, and the event that gives a send called
    after it a lower offset.

    By event: whether it is an acknowledgement, its offset (or NOTHING), its value. By value: the event that begins its
    send, and the event that gives its offset (NOBODY for none).
    """
    found = np.empty((16, 2), np.int64)
    count, highest, top = 0, NOBODY, NOTHING
    for row in range(offset.shape[0]):
        if is_acknowledged[row]:
            if offset[row] > top:
                highest, top = row, offset[row]
            continue
        held = value[row]
        own = place[held]
        if first_sent[held] != row or own == NOBODY or offset[own] == NOTHING or offset[own] >= top:
            continue
        if count == found.shape[0]:
            found = np.concatenate((found, np.empty_like(found)))
        found[count, 0], found[count, 1] = highest, own
        count += 1
    return found[:count].copy()


def distinct(numbers: Rows) -> Rows:
    """The sorted distinct numbers: np.unique, but many times as fast for numbers in a narrow range."""
    if not len(numbers):
        return numbers
    least, most = int(numbers.min()), int(numbers.max())
    if most - least > SPARSE * len(numbers):
        return np.unique(numbers)
    is_there = np.zeros(most - least + 1, bool)
    is_there[numbers - least] = True
    return np.flatnonzero(is_there) + least
