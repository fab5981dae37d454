"""Pure random numbers: each function takes a seed and returns a number and the next seed.

Generators are immutable values, so they carry their seed as an integer. The algorithm is SplitMix64 (Steele, Lea and
Flood, "Fast splittable pseudorandom number generators", 2014): suitable for choosing operations and keys, not for
cryptography. Contains integer arithmetic. Does not use Python's random module.

    number, seed = draw(seed)
    index, seed = draw_below(3, seed)
"""

from __future__ import annotations

from typing import Final

_MASK: Final = (1 << 64) - 1
_GOLDEN_GAMMA: Final = 0x9E3779B97F4A7C15


def draw(seed: int) -> tuple[int, int]:
    """A random 64-bit number and the next seed."""
    state = (seed + _GOLDEN_GAMMA) & _MASK
    mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31), state


def draw_below(bound: int, seed: int) -> tuple[int, int]:
    """A random number from 0 to bound - 1 and the next seed.

    The modulo bias is below bound / 2**64, too small to be visible in any history.
    """
    assert bound > 0, f"expected a positive bound, got {bound}"
    number, seed = draw(seed)
    return number % bound, seed


def split(seed: int, branch: int) -> int:
    """The seed of a numbered branch; branches of one seed have independent random numbers."""
    return draw(draw(seed)[0] ^ branch)[0]
