"""The tests behind a comparison. All are exact or rank-based: no assumption about how quantities are distributed.

    fisher(0, 8, 8, 8)                    # 0 of 8 failed, then 8 of 8: the probability that this is chance
    shift([620, 640], [3100, 3050])       # the shift between two samples, and its 95 % interval

Contains numbers in, numbers out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, sqrt

import numpy as np
from scipy import stats

from results.proportions import Z_95


def fisher(base_failed: int, base: int, head_failed: int, head: int) -> float:
    """Fisher's exact test, two-sided, of base_failed of base against head_failed of head; 1.0 without runs."""
    table = np.array([[base_failed, base - base_failed], [head_failed, head - head_failed]])
    return float(stats.fisher_exact(table).pvalue) if base and head else 1.0


def fisher_least(base_failed: int, base: int, head_failed: int, head: int) -> float:
    """The smallest p that Fisher's test can have with these totals, whatever the runs had been.

    A test that cannot be significant need not be counted in a correction (Tarone 1990).
    """
    failed, runs = base_failed + head_failed, base + head
    if not (base and head):
        return 1.0
    all_in = comb(head, failed) if failed <= head else comb(base, runs - failed)
    none_in = comb(base, failed) if failed <= base else comb(head, runs - failed)
    return min(1.0, min(all_in, none_in) / comb(runs, failed))


def mann_whitney(base: Sequence[float], head: Sequence[float]) -> float:
    """The Mann-Whitney test, two-sided; exact for small samples without ties. 1.0 without values or variation."""
    if not base or not head or len({*base, *head}) == 1:
        return 1.0
    return float(stats.mannwhitneyu(head, base, alternative="two-sided").pvalue)


def mann_whitney_least(base: int, head: int) -> float:
    """The smallest p that the exact test can have with samples of these sizes."""
    return min(1.0, 2 / comb(base + head, base)) if base and head else 1.0


def shift(base: Sequence[float], head: Sequence[float]) -> tuple[float, float, float]:
    """How much larger head is, and the 95 % interval: the median of all differences (Hodges and Lehmann 1963).

    The interval is that of the Mann-Whitney test, by its normal approximation. Both samples have values.
    """
    differences = np.sort(np.subtract.outer(np.asarray(head, float), np.asarray(base, float)).ravel())
    count = len(differences)
    spread = sqrt(count * (len(base) + len(head) + 1) / 12)
    rank = max(0, int(np.floor(count / 2 - Z_95 * spread)))
    return float(np.median(differences)), float(differences[rank]), float(differences[count - 1 - rank])


def holm(p_values: Sequence[float], least: Sequence[float], level: float) -> list[float]:
    """The p-values with Holm's correction (1979), so that the chance of any false alarm is at most level.

    least are the smallest values that each test can have. Tests that cannot be significant are not counted (Tarone).
    """
    count = _counted(least, level)
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    corrected = [1.0] * len(p_values)
    highest, rank = 0.0, 0
    for at in order:
        if least[at] * count > level:
            continue  # not counted: it stays at 1
        highest = max(highest, min(1.0, p_values[at] * (count - rank)))
        corrected[at] = highest
        rank += 1
    return corrected


def _counted(least: Sequence[float], level: float) -> int:
    """Tarone's number: the smallest k for which at most k tests can have a p of level / k or less."""
    return next(k for k in range(1, len(least) + 2) if sum(each * k <= level for each in least) <= k)
