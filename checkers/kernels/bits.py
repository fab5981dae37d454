"""Bit masks of any width, each a row of a table of 64-bit words; their hashes; and arrays that grow.

A function takes a mask as table and row: a view of the row would cost more than the operation on it.

Contains helpers of the searches. They know nothing of operations.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from checkers.kernels.rows import Rows


@njit(inline="always")
def has_bit(masks: Rows, row: int, bit: int) -> bool:
    """Whether the bit is set in a row's mask."""
    return (masks[row, bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1) != np.uint64(0)


@njit(inline="always")
def set_bit(masks: Rows, row: int, bit: int) -> None:
    """Set the bit in place."""
    masks[row, bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)


@njit(inline="always")
def clear_bit(masks: Rows, row: int, bit: int) -> None:
    """Clear the bit in place."""
    masks[row, bit >> 6] &= ~(np.uint64(1) << np.uint64(bit & 63))


@njit(inline="always")
def scramble(number: np.uint64) -> np.uint64:
    """Mix the bits of a 64-bit number (the finalizer of SplitMix64)."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@njit(inline="always")
def hashed(at: int, held: int, masks: Rows, row: int, words: int) -> np.uint64:
    """A hash of two numbers and the first words of a row's mask."""
    found = scramble(scramble(np.uint64(at)) ^ np.uint64(held))
    for word in range(words):
        found = scramble(found ^ masks[row, word])
    return found


@njit(inline="always")
def same_words(masks: Rows, one: int, other: int, words: int) -> bool:
    """Whether the first words of two rows' masks are the same."""
    same = True
    for word in range(words):
        same = same and masks[one, word] == masks[other, word]
    return same


@njit(inline="always")
def is_subset(masks: Rows, one: int, other: int, first: int) -> bool:
    """Whether every bit of one row's mask, from word `first` on, is also in the other's."""
    subset = True
    for word in range(first, masks.shape[1]):
        subset = subset and (masks[one, word] & ~masks[other, word]) == np.uint64(0)
    return subset


@njit(cache=True)
def grown(array: Rows) -> Rows:
    """A copy of the array with twice the length."""
    larger = np.empty(2 * array.shape[0], array.dtype)
    larger[: array.shape[0]] = array
    return larger


@njit(cache=True)
def grown_table(array: Rows) -> Rows:
    """A copy of the two-dimensional array with twice the rows."""
    larger = np.empty((2 * array.shape[0], array.shape[1]), array.dtype)
    larger[: array.shape[0]] = array
    return larger
