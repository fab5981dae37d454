"""Pure randomness: a seed goes in; a number and the next seed come out.

Generators are values, so their randomness is a value too: an integer that they carry. The draws are SplitMix64's
(Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): good enough to choose faults and
keys by, and not for secrets. What may live here: arithmetic on integers. What may not: Python's random module.

    number, seed = draw(seed)
    index, seed = draw_below(3, seed)
"""

from __future__ import annotations

from typing import Final

_MASK: Final = (1 << 64) - 1
_GOLDEN_GAMMA: Final = 0x9E3779B97F4A7C15


def draw(seed: int) -> tuple[int, int]:
    """A 64-bit number and the seed to draw the next one from."""
    state = (seed + _GOLDEN_GAMMA) & _MASK
    mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31), state


def draw_below(bound: int, seed: int) -> tuple[int, int]:
    """A number from 0 up to bound, bound left out, and the next seed.

    The modulo's bias is below bound / 2**64, which no history is long enough to show.
    """
    assert bound > 0, f"expected a positive bound, got {bound}"
    number, seed = draw(seed)
    return number % bound, seed


def split(seed: int, branch: int) -> int:
    """The seed of a numbered branch; branches of one seed do not share their draws."""
    return draw(draw(seed)[0] ^ branch)[0]
