"""Linearizability in general, breadth-first: just-in-time linearization in layers, one for each return (Lowe, 2017).
Best for invalid histories, and with many crashed operations.

A layer starts with the configurations that survived the previous return: the open operations placed so far, the crashed
ones among them, and the model's state. Operations are placed only until the returning one is placed. Of configurations
that differ only in their crashed operations, one that used a superset of another's is dropped, since every continuation
of it is a continuation of the other (an antichain). Those that used fewer are expanded first.

The budgets bound time and memory; beyond them the verdict is UNDECIDED. windows.py selects the operations to try, and
search.py is the depth-first search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from checkers.kernels.bits import (
    clear_bit,
    grown,
    grown_table,
    has_bit,
    hashed,
    is_subset,
    same_words,
    set_bit,
)
from checkers.kernels.rows import NOBODY, Rows, leaf
from checkers.kernels.search import INVALID, UNDECIDED, VALID, bytes_of, states_at
from checkers.kernels.steps import Operations, Texts
from checkers.kernels.windows import Windows, absorb, candidate, windows_of


class Pool(NamedTuple):
    """The configurations of a layer: state and mask of each, how many crashed operations it used, and two chains:
    `alike` links those with the same state and live operations, `later` those that used equally many.

    table holds the heads of the `alike` chains, and layer the layer of each head.
    """

    state: Rows
    mask: Rows
    used: Rows
    alike: Rows
    later: Rows
    table: Rows
    layer: Rows


@njit(cache=True)
def search_in_layers(
    operations: Operations, texts: Texts, initial: int, steps_max: int, bytes_max: int
) -> tuple[int, int, int, int, Rows]:
    """Check one key's operations; returns what search.search returns."""
    windows = windows_of(operations)
    configurations_max = bytes_max // bytes_of(windows.words)
    pool = new_pool(256, windows.words)
    states = np.full(1, initial, np.int64)
    masks = np.zeros((1, windows.words), np.uint64)
    used = np.zeros(1, np.int64)
    steps = 0
    for at in range(windows.queue.shape[0]):
        pool, survivors, spent = layer(
            at, states, masks, used, pool, windows, operations, texts, steps_max - steps, configurations_max
        )
        steps += spent
        if survivors.shape[0] == 0:
            verdict = UNDECIDED if spent > steps_max - (steps - spent) else INVALID
            reached = states_at(at, np.full(states.shape[0], at), states)
            return verdict, min(steps, steps_max), at, windows.queue[at], reached
        states, masks, used = pool.state[survivors], pool.mask[survivors], pool.used[survivors]
        for known in range(masks.shape[0]):
            clear_bit(masks, known, windows.slot[windows.queue[at]])
    reached = states_at(0, np.zeros(states.shape[0], np.int64), states)
    return VALID, steps, windows.queue.shape[0], NOBODY, reached


@njit(cache=True)
def layer(
    at: int, states: Rows, masks: Rows, used: Rows, pool: Pool, windows: Windows, operations: Operations,
    texts: Texts, steps_max: int, configurations_max: int,
) -> tuple[Pool, Rows, int]:  # fmt: skip
    """The survivors of the next return, as numbers in the pool, from those of the last; and the steps spent.

    When the budget is exceeded there are no survivors, and more steps than allowed.
    """
    crashed = windows.crashed_open[at]
    own = windows.slot[windows.queue[at]]
    room = windows.offsets[at + 1] - windows.offsets[at] + crashed
    heads = np.full(crashed + 2, NOBODY, np.int64)
    survivors = np.empty(64, np.int64)
    count, steps, alive = 0, 0, 0
    pool = with_room(pool, 0, states.shape[0] + room, at, windows.live_words)
    for known in range(states.shape[0]):
        put_mask(masks, known, pool.mask, count)
        absorb(at, states[known], pool.mask, count, windows, operations)
        count = insert(at, states[known], used[known], count, pool, heads, windows.live_words)
    for size in range(crashed + 1):
        while heads[size] != NOBODY:
            here, returned = next_of(size, own, at, heads, pool, windows.live_words)
            if here == NOBODY:
                break
            if returned:
                if alive == survivors.shape[0]:
                    survivors = grown(survivors)
                survivors[alive] = here
                alive += 1
                continue
            if count + room > pool.state.shape[0]:
                pool = with_room(pool, count, room, at, windows.live_words)
            count, spent = expand(here, count, at, pool, heads, windows, operations, texts)
            steps += spent
            if steps > steps_max or count > configurations_max:
                return pool, survivors[:0], steps_max + 1
    return pool, survivors[:alive], steps


@leaf
def next_of(size: int, own: int, at: int, heads: Rows, pool: Pool, live_words: int) -> tuple[int, bool]:
    """The next configuration that used `size` crashed operations, and whether it has placed the returning one."""
    while heads[size] != NOBODY:
        here = heads[size]
        heads[size] = pool.later[here]
        if size == 0 or not is_dominated(here, pool, at, live_words):
            return here, has_bit(pool.mask, here, own)
    return NOBODY, False


@leaf
def expand(
    here: int, count: int, at: int, pool: Pool, heads: Rows, windows: Windows, operations: Operations, texts: Texts
) -> tuple[int, int]:
    """Insert the configurations one operation further; returns how many there are then, and the steps spent."""
    cursor, steps, held, live_words = 0, 0, pool.state[here], windows.live_words
    while True:
        operation, after, cursor = candidate(at, cursor, held, pool.mask, here, windows, operations, texts)
        if operation == NOBODY:
            return count, steps
        steps += 1
        put_mask(pool.mask, here, pool.mask, count)
        set_bit(pool.mask, count, windows.slot[operation])
        absorb(at, after, pool.mask, count, windows, operations)
        more = pool.used[here] + (windows.slot[operation] >= 64 * live_words)
        count = insert(at, after, more, count, pool, heads, live_words)


@njit(inline="always")
def put_mask(masks: Rows, row: int, into: Rows, at: int) -> None:
    """Copy a row's mask into another table."""
    for word in range(masks.shape[1]):
        into[at, word] = masks[row, word]


@leaf
def insert(at: int, held: int, used: int, count: int, pool: Pool, heads: Rows, live_words: int) -> int:
    """Insert the configuration with the mask in row `count` unless another dominates it; returns how many there are."""
    where = spot(at, held, count, pool, live_words)
    head = pool.table[where] if pool.layer[where] == at else NOBODY
    known = head
    while known != NOBODY:
        if is_subset(pool.mask, known, count, live_words):
            return count
        known = pool.alike[known]
    pool.state[count], pool.used[count] = held, used
    pool.alike[count], pool.later[count] = head, heads[used]
    pool.table[where], pool.layer[where] = count, at
    heads[used] = count
    return count + 1


@leaf
def is_dominated(here: int, pool: Pool, at: int, live_words: int) -> bool:
    """Whether a later configuration used a proper subset of this one's crashed operations."""
    known = pool.table[spot(at, pool.state[here], here, pool, live_words)]
    while known != here:
        if pool.used[known] < pool.used[here] and is_subset(pool.mask, known, here, live_words):
            return True
        known = pool.alike[known]
    return False


@leaf
def spot(at: int, held: int, row: int, pool: Pool, live_words: int) -> int:
    """The table's slot for the chain of configurations like this row's: its head, or a free slot."""
    where = np.int64(hashed(at, held, pool.mask, row, live_words) & np.uint64(pool.table.shape[0] - 1))
    while pool.layer[where] == at:
        known = pool.table[where]
        if pool.state[known] == held and same_words(pool.mask, known, row, live_words):
            break
        where = (where + 1) & (pool.table.shape[0] - 1)
    return int(where)


@njit(cache=True)
def new_pool(size: int, words: int) -> Pool:
    """An empty pool for `size` configurations."""
    return Pool(
        np.empty(size, np.int64),
        np.empty((size, words), np.uint64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(4 * size, np.int64),
        np.full(4 * size, NOBODY, np.int64),
    )


@njit(cache=True)
def with_room(pool: Pool, count: int, more: int, at: int, live_words: int) -> Pool:
    """The pool with room for `more` configurations."""
    while count + more > pool.state.shape[0]:
        size = 2 * pool.state.shape[0]
        larger = Pool(
            grown(pool.state), grown_table(pool.mask), grown(pool.used), grown(pool.alike), grown(pool.later),
            np.empty(4 * size, np.int64), np.full(4 * size, NOBODY, np.int64),
        )  # fmt: skip
        for old in range(pool.table.shape[0]):
            if count and pool.layer[old] == at:
                head = pool.table[old]
                where = spot(at, pool.state[head], head, larger, live_words)
                larger.table[where], larger.layer[where] = head, at
        pool = larger
    return pool
