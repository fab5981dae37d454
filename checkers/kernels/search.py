"""Linearizability of a register in general, by depth-first search with memory: any values, compare-and-set, any number
of operations open at once (after Wing and Gong, 1993, and Lowe, 2017).

A configuration says: every operation returned before position p has been placed, so have the open operations in the
mask, and the register holds `state`. Each is visited once. An operation that changes nothing (a read, a refused
compare-and-set) is placed as soon as it fits, which never costs an order. A crashed operation may be placed at any time
or never; of crashed twins only the earliest is tried.

The budget bounds time and memory: past it the answer is UNDECIDED. What may live here: this search. What may not: the
unique-value case, which zones.py does in linear time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from checkers.kernels.rows import NEVER, NOBODY, Rows

VALID, INVALID, UNDECIDED = 0, 1, 2

READ_OF, WRITE_OF, SWAP, REFUSED_SWAP = 0, 1, 2, 3
"""Codes: read of a, write of a, compare-and-set from a to b that took (or may take) effect, one refused because the
register did not hold a."""


@njit(cache=True)
def search(call: Rows, back: Rows, code: Rows, a: Rows, b: Rows, initial: int, steps_max: int) -> tuple[int, int, int]:
    """Judge one key's operations, given in order of invocation; back is NEVER for a crashed operation.

    Returns the verdict, the steps spent, and the operation that could not be placed on the longest way through.
    """
    queue = in_return_order(back)
    slot, slots = assign_slots(call, back, queue)
    offsets, live, crashed, crashed_open = open_operations(call, back, queue)
    words = (slots + 63) // 64
    place = np.empty(1024, np.int64)
    state = np.empty(1024, np.int64)
    mask = np.zeros((1024, words), np.uint64)
    table = np.full(4096, NOBODY, np.int64)
    stack = np.empty((1024, 2), np.int64)
    scratch = np.zeros(words, np.uint64)
    at = settle(0, initial, scratch, queue, offsets, live, slot, code, a)
    place[0], state[0] = at, initial
    mask[0] = scratch
    table[spot(at, initial, scratch, table, place, state, mask)] = 0
    stack[0] = (0, 0)
    count, depth, steps, furthest = 1, 1, 0, at
    while depth:
        here, cursor = stack[depth - 1]
        at = place[here]
        if at == queue.shape[0]:
            return VALID, steps, NOBODY
        operation, after, cursor = candidate(
            at, cursor, state[here], mask[here], offsets, live, crashed, crashed_open, slot, code, a, b
        )
        stack[depth - 1, 1] = cursor
        if operation == NOBODY:
            depth -= 1
            continue
        steps += 1
        if steps > steps_max:
            return UNDECIDED, steps, queue[furthest]
        scratch[:] = mask[here]
        set_bit(scratch, slot[operation])
        at = settle(at, after, scratch, queue, offsets, live, slot, code, a)
        free = spot(at, after, scratch, table, place, state, mask)
        if table[free] != NOBODY:
            continue
        if count == place.shape[0]:
            place, state, mask, stack = grown(place), grown(state), grown_table(mask), grown_table(stack)
        place[count], state[count] = at, after
        mask[count] = scratch
        table[free] = count
        stack[depth] = (count, 0)
        depth += 1
        count += 1
        furthest = max(furthest, at)
        if 2 * count > table.shape[0]:
            table = rehashed(table, count, place, state, mask)
    return INVALID, steps, queue[furthest]


@njit(cache=True)
def in_return_order(back: Rows) -> Rows:
    """The completed operations in the order of their returns."""
    order = np.argsort(back)
    return order[: np.sum(back != NEVER)]


@njit(cache=True)
def assign_slots(call: Rows, back: Rows, queue: Rows) -> tuple[Rows, int]:
    """A bit for each operation, used again once its owner has returned; and how many bits that takes."""
    slot = np.empty(call.shape[0], np.int64)
    free = np.empty(call.shape[0] + 1, np.int64)
    spare, used, returned = 0, 0, 0
    for operation in range(call.shape[0]):
        while returned < queue.shape[0] and back[queue[returned]] < call[operation]:
            free[spare] = slot[queue[returned]]
            spare += 1
            returned += 1
        if spare:
            spare -= 1
            slot[operation] = free[spare]
        else:
            slot[operation] = used
            used += 1
    return slot, max(used, 1)


@njit(cache=True)
def open_operations(call: Rows, back: Rows, queue: Rows) -> tuple[Rows, Rows, Rows, Rows]:
    """Who is open at each return: offsets into `live` (soonest return first), and how many of the crashed."""
    total = queue.shape[0]
    offsets = np.zeros(total + 1, np.int64)
    crashed_open = np.zeros(total, np.int64)
    live = np.empty(4 * total + 16, np.int64)
    crashed = np.nonzero(back == NEVER)[0]
    now = np.empty(call.shape[0], np.int64)
    size, following, stuck, used = 0, 0, 0, 0
    for at in range(total):
        end = back[queue[at]]
        while following < call.shape[0] and call[following] < end:
            if back[following] == NEVER:
                stuck += 1
            else:
                # Kept in order of return, so that the operation which must go next is tried first.
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
    return offsets, live, crashed, crashed_open


@njit(cache=True)
def settle(
    at: int, held: int, mask: Rows, queue: Rows, offsets: Rows, live: Rows, slot: Rows, code: Rows, a: Rows
) -> int:
    """Place what changes nothing and fits, and go past every return whose operation is placed; mask is changed."""
    while at < queue.shape[0]:
        for index in range(offsets[at], offsets[at + 1]):
            operation = live[index]
            if (code[operation] == READ_OF and a[operation] == held) or (
                code[operation] == REFUSED_SWAP and a[operation] != held
            ):
                set_bit(mask, slot[operation])
        if not has_bit(mask, slot[queue[at]]):
            break
        clear_bit(mask, slot[queue[at]])
        at += 1
    return at


@njit(cache=True)
def candidate(
    at: int, cursor: int, held: int, mask: Rows, offsets: Rows, live: Rows,
    crashed: Rows, crashed_open: Rows, slot: Rows, code: Rows, a: Rows, b: Rows,
) -> tuple[int, int, int]:  # fmt: skip
    """The next open operation from cursor on that can change the register: it, the new state, the next cursor."""
    alive = offsets[at + 1] - offsets[at]
    while cursor < alive + crashed_open[at]:
        operation = live[offsets[at] + cursor] if cursor < alive else crashed[cursor - alive]
        cursor += 1
        if has_bit(mask, slot[operation]):
            continue
        changes = code[operation] == WRITE_OF or (code[operation] == SWAP and a[operation] == held)
        if not changes:
            continue
        after = a[operation] if code[operation] == WRITE_OF else b[operation]
        is_crashed = cursor > alive
        if is_crashed and (after == held or has_earlier_twin(cursor - alive - 1, mask, crashed, slot, code, a, b)):
            continue
        return operation, after, cursor
    return NOBODY, held, cursor


@njit(cache=True)
def has_earlier_twin(index: int, mask: Rows, crashed: Rows, slot: Rows, code: Rows, a: Rows, b: Rows) -> bool:
    """Whether an earlier crashed operation that does the same is still to be placed: trying both says nothing new."""
    one = crashed[index]
    for earlier in range(index):
        other = crashed[earlier]
        if code[other] == code[one] and a[other] == a[one] and b[other] == b[one] and not has_bit(mask, slot[other]):
            return True
    return False


@njit(cache=True)
def spot(at: int, held: int, mask: Rows, table: Rows, place: Rows, state: Rows, masks: Rows) -> int:
    """Where this configuration stands in the hash table, or the free spot where it belongs."""
    hashed = scramble(scramble(np.uint64(at)) ^ np.uint64(held))
    for word in mask:
        hashed = scramble(hashed ^ word)
    where = np.int64(hashed & np.uint64(table.shape[0] - 1))
    while table[where] != NOBODY:
        known = table[where]
        if place[known] == at and state[known] == held and np.array_equal(masks[known], mask):
            break
        where = (where + 1) & (table.shape[0] - 1)
    return int(where)


@njit(cache=True)
def rehashed(table: Rows, count: int, place: Rows, state: Rows, mask: Rows) -> Rows:
    """The hash table four times as large."""
    larger = np.full(4 * table.shape[0], NOBODY, np.int64)
    for known in range(count):
        larger[spot(place[known], state[known], mask[known], larger, place, state, mask)] = known
    return larger


@njit(inline="always")
def scramble(number: np.uint64) -> np.uint64:
    """Mix the bits of a 64-bit number (the finalizer of SplitMix64)."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@njit(inline="always")
def has_bit(mask: Rows, bit: int) -> bool:
    """Whether the bit is set."""
    return (mask[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1) != np.uint64(0)


@njit(inline="always")
def set_bit(mask: Rows, bit: int) -> None:
    """Set the bit in place."""
    mask[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)


@njit(inline="always")
def clear_bit(mask: Rows, bit: int) -> None:
    """Clear the bit in place."""
    mask[bit >> 6] &= ~(np.uint64(1) << np.uint64(bit & 63))


@njit(cache=True)
def grown(array: Rows) -> Rows:
    """The array with twice the room."""
    larger = np.empty(2 * array.shape[0], array.dtype)
    larger[: array.shape[0]] = array
    return larger


@njit(cache=True)
def grown_table(array: Rows) -> Rows:
    """The two-dimensional array with twice the rows."""
    larger = np.empty((2 * array.shape[0], array.shape[1]), array.dtype)
    larger[: array.shape[0]] = array
    return larger
