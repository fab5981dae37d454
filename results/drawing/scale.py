"""Mapping of values to coordinates, and round numbers for axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps low..high linearly to start..end; an empty domain maps to start."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The coordinate of a value; values outside the domain are clamped."""
        if self.high <= self.low:
            return self.start
        part = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def round_step(high: float, count_max: int) -> float:
    """The smallest of 1, 2, 5, 10, 20, … (or 0.1, 0.2, …) that divides 0..high into at most count_max parts."""
    if high <= 0:
        return 1
    power = 10 ** math.floor(math.log10(high / count_max))
    return next(step * power for step in (1, 2, 5, 10) if high / (step * power) <= count_max * (1 + 1e-9))


def ticks(high: float, count_max: int) -> Iterator[float]:
    """Round numbers from 0 to high."""
    step = round_step(high, count_max)
    for number in range(math.floor(high / step + 1e-9) + 1):
        yield number * step
