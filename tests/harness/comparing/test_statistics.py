"""The tests behind a comparison agree with their definitions, counted out."""

from __future__ import annotations

from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.comparing.statistics import fisher, fisher_least, holm, mann_whitney, mann_whitney_least, shift

COUNTS = st.integers(1, 7)


def hypergeometric(head_failed: int, failed: int, base: int, head: int) -> float:
    return comb(head, head_failed) * comb(base, failed - head_failed) / comb(base + head, failed)


@given(base=COUNTS, head=COUNTS, data=st.data())
def test_fisher_is_the_sum_of_all_tables_that_are_no_more_likely(base: int, head: int, data: st.DataObject) -> None:
    base_failed, head_failed = data.draw(st.integers(0, base)), data.draw(st.integers(0, head))
    failed = base_failed + head_failed
    tables = [hypergeometric(k, failed, base, head) for k in range(max(0, failed - base), min(head, failed) + 1)]
    seen = hypergeometric(head_failed, failed, base, head)
    p = sum(each for each in tables if each <= seen * (1 + 1e-9))
    assert fisher(base_failed, base, head_failed, head) == pytest.approx(p)
    assert fisher_least(base_failed, base, head_failed, head) <= min(1.0, p) + 1e-12
    assert fisher_least(base_failed, base, head_failed, head) == pytest.approx(min(tables[0], tables[-1]))


def test_fisher_without_runs_says_nothing() -> None:
    assert fisher(0, 0, 3, 3) == fisher_least(0, 0, 3, 3) == 1.0


@given(values=st.lists(st.integers(0, 10**6), min_size=2, max_size=9, unique=True), data=st.data())
def test_mann_whitney_counts_the_splits_that_are_no_less_extreme(values: list[int], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(values) - 1))
    base, head = values[:size], values[size:]
    ranks = sorted(values)

    def wins(chosen: tuple[int, ...] | list[int]) -> int:
        others = [value for value in ranks if value not in chosen]
        return sum(each > other for each in chosen for other in others)

    splits = [wins(chosen) for chosen in combinations(ranks, len(head))]
    middle = len(base) * len(head) / 2
    seen = abs(wins(head) - middle)
    p = sum(abs(each - middle) >= seen - 1e-9 for each in splits) / len(splits)
    assert mann_whitney(base, head) == pytest.approx(min(1.0, p))
    assert mann_whitney(base, head) >= mann_whitney_least(len(base), len(head)) - 1e-12


def test_mann_whitney_without_variation_says_nothing() -> None:
    assert mann_whitney([1, 1, 1], [1, 1]) == mann_whitney([], [1]) == 1.0


def test_shift_is_between_the_bounds_and_moves_with_the_sample() -> None:
    base = [10.0, 12.0, 11.0, 15.0, 9.0, 13.0, 12.5, 11.5]
    head = [value + 100 for value in base]
    middle, low, high = shift(base, head)
    assert middle == pytest.approx(100)
    assert low < 100 < high
    assert high - low < 10
    assert shift([5.0], [7.0]) == (2.0, 2.0, 2.0)


@given(p_values=st.lists(st.floats(0, 1), max_size=20))
def test_holm_is_monotone_and_never_smaller(p_values: list[float]) -> None:
    corrected = holm(p_values, [0.0] * len(p_values), 0.01)
    pairs = sorted(zip(p_values, corrected, strict=True))
    assert all(after >= before for before, after in pairs)
    assert [after for _, after in pairs] == sorted(after for _, after in pairs)


def test_holm_of_a_known_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005], [0.0] * 4, 0.05) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_tests_that_cannot_be_significant_do_not_count() -> None:
    """Tarone: 99 cases without any failure take nothing from the one with failures."""
    assert holm([1.0] * 99 + [0.002], [1.0] * 99 + [0.002], 0.01)[-1] == pytest.approx(0.002)
    assert holm([0.002], [0.02], 0.01) == [1.0], "what cannot be significant is not"
