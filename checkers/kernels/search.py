"""Linearizability in general, by depth-first search with memory, for any values and any number of open operations
(after Wing and Gong, 1993, and Lowe, 2017). Best for valid histories.

A configuration means: every operation that returned before position p is placed, so are the open operations in the
mask, and the model is in `state`. Each is visited once. An observation is placed as soon as it fits. A crashed
operation may be placed at any time or never.

The budgets bound time and memory; beyond them the verdict is UNDECIDED. windows.py selects the operations to try, and
layers.py is the breadth-first search.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from checkers.kernels.bits import clear_bit, grown, grown_table, has_bit, hashed, same_words, set_bit
from checkers.kernels.rows import NOBODY, Rows, leaf
from checkers.kernels.steps import Operations, Texts
from checkers.kernels.windows import Windows, absorb, candidate, windows_of

VALID, INVALID, UNDECIDED = 0, 1, 2

STATES_MAX = 8
"""How many states at the furthest position a search returns."""


@njit(inline="always")
def bytes_of(words: int) -> int:
    """The memory of a configuration in either search, with its share of the hash table, while arrays grow."""
    return 192 + 16 * words


@njit(cache=True)
def search(
    operations: Operations, texts: Texts, initial: int, steps_max: int, bytes_max: int
) -> tuple[int, int, int, int, Rows]:
    """Check one key's operations.

    Returns the verdict; the steps spent; how many completed operations the longest order placed; the operation that
    could not be placed after them (NOBODY if valid); and some of the states reached there.
    """
    verdict, steps, furthest, stuck, states, _ = explore(
        operations, texts, initial, steps_max, bytes_max, windows_of(operations)
    )
    return verdict, steps, furthest, stuck, states


@njit(cache=True)
def explore(
    operations: Operations, texts: Texts, initial: int, steps_max: int, bytes_max: int, windows: Windows
) -> tuple[int, int, int, int, Rows, Rows]:
    """What search returns; and, if valid, the operations of one order that change the state."""
    queue, slot, words = windows.queue, windows.slot, windows.words
    configurations_max = bytes_max // bytes_of(words)
    place = np.empty(1024, np.int64)
    state = np.empty(1024, np.int64)
    mask = np.zeros((1024, words), np.uint64)
    table = np.full(4096, NOBODY, np.int64)
    stack = np.empty((1024, 2), np.int64)
    at = settle(0, initial, mask, 0, windows, operations)
    place[0], state[0] = at, initial
    table[spot(0, at, initial, table, place, state, mask)] = 0
    stack[0] = (0, 0)
    count, depth, steps, furthest = 1, 1, 0, at
    while depth and furthest < queue.shape[0]:
        here, cursor = stack[depth - 1]
        at = place[here]
        operation, after, cursor = candidate(at, cursor, state[here], mask, here, windows, operations, texts)
        stack[depth - 1, 1] = cursor
        if operation == NOBODY:
            depth -= 1
            continue
        steps += 1
        if steps > steps_max or count > configurations_max:
            states = states_at(furthest, place[:count], state)
            return UNDECIDED, steps - 1, furthest, queue[furthest], states, place[:0]
        if count == place.shape[0]:
            place, state, mask, stack = grown(place), grown(state), grown_table(mask), grown_table(stack)
        for word in range(words):
            mask[count, word] = mask[here, word]
        set_bit(mask, count, slot[operation])
        at = settle(at, after, mask, count, windows, operations)
        free = spot(count, at, after, table, place, state, mask)
        if table[free] != NOBODY:
            continue
        place[count], state[count], table[free] = at, after, count
        stack[depth] = (count, 0)
        depth += 1
        count += 1
        furthest = max(furthest, at)
        if 2 * count > table.shape[0]:
            table = rehashed(table, count, place, state, mask)
    states = states_at(furthest, place[:count], state)
    if furthest == queue.shape[0]:
        return VALID, steps, furthest, NOBODY, states, chosen(stack[: max(depth - 1, 0)], place, windows)
    return INVALID, steps, furthest, queue[furthest], states, place[:0]


@njit(cache=True)
def chosen(stack: Rows, place: Rows, windows: Windows) -> Rows:
    """The operation that each entry of the stack tried last."""
    found = np.empty(stack.shape[0], np.int64)
    for depth in range(stack.shape[0]):
        at, index = place[stack[depth, 0]], stack[depth, 1] - 1
        first = windows.offsets[at]
        alive = windows.offsets[at + 1] - first
        found[depth] = windows.live[first + index] if index < alive else windows.crashed[index - alive]
    return found


@leaf
def settle(at: int, held: int, masks: Rows, row: int, windows: Windows, operations: Operations) -> int:
    """Place the observations that fit, and advance past every return whose operation is placed; changes the mask."""
    while at < windows.queue.shape[0]:
        absorb(at, held, masks, row, windows, operations)
        if not has_bit(masks, row, windows.slot[windows.queue[at]]):
            break
        clear_bit(masks, row, windows.slot[windows.queue[at]])
        at += 1
    return at


@leaf
def spot(row: int, at: int, held: int, table: Rows, place: Rows, state: Rows, masks: Rows) -> int:
    """The hash table's slot of the configuration with this row's mask, or a free slot for it."""
    words = masks.shape[1]
    where = np.int64(hashed(at, held, masks, row, words) & np.uint64(table.shape[0] - 1))
    while table[where] != NOBODY:
        known = table[where]
        if place[known] == at and state[known] == held and same_words(masks, known, row, words):
            break
        where = (where + 1) & (table.shape[0] - 1)
    return int(where)


@njit(cache=True)
def rehashed(table: Rows, count: int, place: Rows, state: Rows, masks: Rows) -> Rows:
    """The hash table four times as large."""
    larger = np.full(4 * table.shape[0], NOBODY, np.int64)
    for known in range(count):
        larger[spot(known, place[known], state[known], larger, place, state, masks)] = known
    return larger


@njit(cache=True)
def states_at(at: int, place: Rows, state: Rows) -> Rows:
    """Some of the distinct states of the configurations at this position."""
    found = np.empty(STATES_MAX, np.int64)
    count = 0
    for known in range(place.shape[0]):
        if count < STATES_MAX and place[known] == at and not np.any(found[:count] == state[known]):
            found[count] = state[known]
            count += 1
    return found[:count]
