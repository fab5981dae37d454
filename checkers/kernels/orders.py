"""The longest order of an invalid history: the operations that returned before the one that cannot be placed.

These operations are a history of their own, in which those that had not returned by then are pending. It has an order,
which the depth-first search finds. The search keeps only the operations that change the state; this module returns all.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from checkers.kernels.bits import clear_bit, has_bit, set_bit
from checkers.kernels.rows import NEVER, Rows
from checkers.kernels.search import VALID, explore
from checkers.kernels.steps import READ_OF, REFUSED_SWAP, Operations, Texts, left_by, observes
from checkers.kernels.windows import Windows, windows_of


def order_before(
    operations: Operations, texts: Texts, initial: int, stuck: int, steps_max: int, bytes_max: int
) -> tuple[Rows, int]:
    """The operations in order, and the state after them; no operations if the budget is exceeded."""
    end = operations.back[stuck]
    pending = operations.back >= end
    observations = np.isin(operations.code, (READ_OF, REFUSED_SWAP))
    kept = np.flatnonzero((operations.call < end) & ~(pending & observations))
    columns = [column[kept] for column in operations]
    earlier = Operations(columns[0], np.where(columns[1] >= end, NEVER, columns[1]), *columns[2:])
    windows = windows_of(earlier)
    verdict, *_, path = explore(earlier, texts, initial, steps_max, bytes_max, windows)
    if verdict != VALID:
        return kept[:0], initial
    order, held = replayed(path, earlier, texts, initial, windows)
    return kept[order], int(held)


@njit(cache=True)
def replayed(path: Rows, operations: Operations, texts: Texts, initial: int, windows: Windows) -> tuple[Rows, int]:
    """The path with the observations inserted where the search absorbed them, and the state after it."""
    mask = np.zeros((1, windows.words), np.uint64)
    order = np.empty(operations.call.shape[0], np.int64)
    at, count = place_observations(0, initial, mask, order, 0, windows, operations)
    held = initial
    for operation in path:
        held = left_by(operations.code[operation], operations.a[operation], operations.b[operation], held, texts)
        set_bit(mask, 0, windows.slot[operation])
        order[count] = operation
        at, count = place_observations(at, held, mask, order, count + 1, windows, operations)
    return order[:count], held


@njit(cache=True)
def place_observations(
    at: int, held: int, mask: Rows, order: Rows, count: int, windows: Windows, operations: Operations
) -> tuple[int, int]:
    """search.settle, which also records the observations that it places."""
    while at < windows.queue.shape[0]:
        for index in range(windows.offsets[at], windows.offsets[at + 1]):
            one = windows.live[index]
            placed = has_bit(mask, 0, windows.slot[one])
            if not placed and observes(operations.code[one], operations.a[one], held):
                set_bit(mask, 0, windows.slot[one])
                order[count] = one
                count += 1
        if not has_bit(mask, 0, windows.slot[windows.queue[at]]):
            break
        clear_bit(mask, 0, windows.slot[windows.queue[at]])
        at += 1
    return at, count
