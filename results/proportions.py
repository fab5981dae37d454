"""Proportions: how often something happened in so many runs."""

from __future__ import annotations

from math import sqrt
from typing import Final

Z_95: Final = 1.959964
"""The two-sided 95 % quantile of the normal distribution."""


def wilson_interval(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % score interval of a proportion (Wilson 1927), also valid for few trials and for 0 and 1."""
    if not trials:
        return 0.0, 1.0
    share = successes / trials
    centre = share + Z_95 * Z_95 / (2 * trials)
    spread = Z_95 * sqrt(share * (1 - share) / trials + Z_95 * Z_95 / (4 * trials * trials))
    scale = 1 + Z_95 * Z_95 / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)
