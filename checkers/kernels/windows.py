"""Which operations may be placed when: computed once before either search.

Position p lies between the returns p - 1 and p of the completed operations, ordered by return. Every operation called
before return p and not returned before it is open there. Each operation has a bit: live ones share the first words of a
mask, and a bit is reused once its owner has returned; crashed ones never return and have the remaining words.

Contains that table, and which open operation is worth trying.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from checkers.kernels.bits import grown, has_bit, set_bit
from checkers.kernels.rows import NEVER, NOBODY, Rows, leaf
from checkers.kernels.steps import (
    DEAD,
    IMPOSSIBLE,
    READ_OF,
    WRITE_OF,
    Operations,
    Texts,
    is_observation,
    left_by,
    observes,
)

FEW = 6
"""Up to this many open operations, a DEAD state is followed to the read that contradicts it, which explains more. With
more open operations, it is followed only if a write can come before any read."""


class Windows(NamedTuple):
    """queue: the completed operations in order of return. slot: each operation's bit. live_words, words: the words of
    a mask for live operations, and for all. The live ones at p, by return, are live[offsets[p] : offsets[p + 1]]; the
    crashed ones, by call, are crashed[: crashed_open[p]].
    """

    queue: Rows
    slot: Rows
    live_words: int
    words: int
    offsets: Rows
    live: Rows
    crashed: Rows
    crashed_open: Rows


@njit(cache=True)
def windows_of(operations: Operations) -> Windows:
    """The windows of one key's operations."""
    call, back = operations.call, operations.back
    order = np.argsort(back)
    queue = order[: np.sum(back != NEVER)]
    crashed = np.nonzero(back == NEVER)[0]
    slot, slots = assign_slots(call, back, queue)
    live_words = (slots + 63) // 64
    for index in range(crashed.shape[0]):
        slot[crashed[index]] = 64 * live_words + index
    offsets, live, crashed_open = open_operations(call, back, queue)
    words = live_words + (crashed.shape[0] + 63) // 64
    return Windows(queue, slot, live_words, words, offsets, live, crashed, crashed_open)


@njit(cache=True)
def assign_slots(call: Rows, back: Rows, queue: Rows) -> tuple[Rows, int]:
    """A bit for each live operation, reused once its owner has returned; and the number of bits."""
    slot = np.empty(call.shape[0], np.int64)
    free = np.empty(call.shape[0] + 1, np.int64)
    spare, used, returned = 0, 0, 0
    for operation in range(call.shape[0]):
        while returned < queue.shape[0] and back[queue[returned]] < call[operation]:
            free[spare] = slot[queue[returned]]
            spare += 1
            returned += 1
        if back[operation] == NEVER:
            continue
        if spare:
            spare -= 1
            slot[operation] = free[spare]
        else:
            slot[operation] = used
            used += 1
    return slot, max(used, 1)


@njit(cache=True)
def open_operations(call: Rows, back: Rows, queue: Rows) -> tuple[Rows, Rows, Rows]:
    """The operations open at each position: offsets into `live`, and the number of crashed ones."""
    total = queue.shape[0]
    offsets = np.zeros(total + 1, np.int64)
    crashed_open = np.zeros(total, np.int64)
    live = np.empty(4 * total + 16, np.int64)
    now = np.empty(call.shape[0], np.int64)
    size, following, stuck, used = 0, 0, 0, 0
    for at in range(total):
        end = back[queue[at]]
        while following < call.shape[0] and call[following] < end:
            if back[following] == NEVER:
                stuck += 1
            else:
                # In order of return: the operation that must be placed next is tried first.
                into = size
                while into and back[now[into - 1]] > back[following]:
                    now[into] = now[into - 1]
                    into -= 1
                now[into] = following
                size += 1
            following += 1
        while used + size > live.shape[0]:
            live = grown(live)
        live[used : used + size] = now[:size]
        used += size
        offsets[at + 1] = used
        crashed_open[at] = stuck
        now[: size - 1] = now[1:size]
        size -= 1
    return offsets, live, crashed_open


@leaf
def absorb(at: int, held: int, masks: Rows, row: int, windows: Windows, operations: Operations) -> None:
    """Place every open observation that fits the state, which never loses an order; changes the row's mask."""
    for index in range(windows.offsets[at], windows.offsets[at + 1]):
        operation = windows.live[index]
        if observes(operations.code[operation], operations.a[operation], held):
            set_bit(masks, row, windows.slot[operation])


@leaf
def candidate(
    at: int, cursor: int, held: int, masks: Rows, row: int, windows: Windows, operations: Operations, texts: Texts
) -> tuple[int, int, int]:
    """The next open operation from cursor on that can change the state: it, the new state, the next cursor.

    Of operations with the same effect only the one that returns first is tried: any order can exchange them.
    """
    live, crashed, slot = windows.live, windows.crashed, windows.slot
    codes, of_a, of_b = operations.code, operations.a, operations.b
    first = windows.offsets[at]
    alive = windows.offsets[at + 1] - first
    while cursor < alive + windows.crashed_open[at]:
        index, cursor = cursor, cursor + 1
        operation = live[first + index] if index < alive else crashed[index - alive]
        code = codes[operation]
        if is_observation(code) or has_bit(masks, row, slot[operation]):
            continue
        after = left_by(code, of_a[operation], of_b[operation], held, texts)
        if after == IMPOSSIBLE or (index >= alive and after == held):
            continue
        is_second = False
        for earlier in range(index):
            other = live[first + earlier] if earlier < alive else crashed[earlier - alive]
            if of_a[other] == of_a[operation] and of_b[other] == of_b[operation] and codes[other] == code:
                is_second = is_second or not has_bit(masks, row, slot[other])
        is_dead = after == DEAD and alive > FEW
        if is_second or (is_dead and is_hopeless(at, masks, row, windows, operations)):
            continue
        return operation, after, cursor
    return NOBODY, held, cursor


@leaf
def is_hopeless(at: int, masks: Rows, row: int, windows: Windows, operations: Operations) -> bool:
    """Whether a read must be placed before any write can be, which no DEAD state allows."""
    queue, call, code = windows.queue, operations.call, operations.code
    now = operations.back[queue[at]]
    for place in range(at, queue.shape[0]):
        one = queue[place]
        if call[one] < now and has_bit(masks, row, windows.slot[one]):
            continue
        if code[one] == WRITE_OF:
            return False
        if code[one] != READ_OF:
            continue
        for index in range(windows.offsets[place], windows.offsets[place + 1]):
            other = windows.live[index]
            if code[other] == WRITE_OF and not (call[other] < now and has_bit(masks, row, windows.slot[other])):
                return False
        for index in range(windows.crashed_open[place]):
            other = windows.crashed[index]
            if code[other] == WRITE_OF and not (call[other] < now and has_bit(masks, row, windows.slot[other])):
                return False
        return True
    return False
