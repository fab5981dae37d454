"""Where a specification fixes the order of operations, one pass decides whether time agrees with it: a rank scan.

The records of a log have the order of their offsets. Sends can be ordered so if and only if none begins after another
with a higher offset was acknowledged: so the highest offset acknowledged is held against each send that begins.

What may live here: that pass, and distinct numbers. What may not: a log's other rules, which are log.py's.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from checkers.kernels.rows import NOBODY, Rows

NOTHING = -1
"""The offset of a send that tells none, and of a drain that found an empty log."""

SPARSE = 4
"""Numbers are marked where they lie in a range of so many times their count, and sorted where not."""


@njit(cache=True)
def overtaken(is_acknowledged: Rows, offset: Rows, value: Rows, first_sent: Rows, place: Rows) -> Rows:
    """Pairs of events: an acknowledgement, and where a later send is placed, at a lower offset; as these sends began.

    By event: whether it is an acknowledgement, its offset (or NOTHING), its value. By value: the event that begins the
    send, and the one that tells its offset (NOBODY for none).
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
    """The distinct numbers in order: np.unique, but many times as fast where the numbers lie close together."""
    if not len(numbers):
        return numbers
    least, most = int(numbers.min()), int(numbers.max())
    if most - least > SPARSE * len(numbers):
        return np.unique(numbers)
    is_there = np.zeros(most - least + 1, bool)
    is_there[numbers - least] = True
    return np.flatnonzero(is_there) + least
