"""The rank scan against its definition, on random small logs, and distinct numbers against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.kernels.ranks import NOTHING, distinct, overtaken
from checkers.kernels.rows import NOBODY


def overtaken_by_definition(
    acked: np.ndarray, offset: np.ndarray, value: np.ndarray, first_sent: np.ndarray, place: np.ndarray
) -> set[int]:
    """The events that give an offset to sends that begin after an acknowledgement of a higher one."""
    return {
        int(own)
        for held, own in enumerate(place)
        if own != NOBODY and offset[own] != NOTHING
        for row in range(first_sent[held])
        if acked[row] and value[row] != held and offset[row] > offset[own]
    }


def test_rank_scan_agrees_with_its_definition() -> None:
    found = 0
    for seed in range(2000):
        source = np.random.default_rng(seed)
        sends = int(source.integers(1, 8))
        value = np.repeat(np.arange(sends), 2)
        source.shuffle(value)
        acked = np.array([held in value[:row] for row, held in enumerate(value)])
        first_sent, place = np.full(sends, NOBODY), np.full(sends, NOBODY)
        first_sent[value[~acked]], place[value[acked]] = np.flatnonzero(~acked), np.flatnonzero(acked)
        place[source.random(sends) < 0.1] = NOBODY
        offsets = np.where(source.random(sends) < 0.1, NOTHING, source.permutation(sends))
        offset = np.where(acked, offsets[value], NOTHING)
        pairs = overtaken(acked, offset, value, first_sent, place)
        expected = overtaken_by_definition(acked, offset, value, first_sent, place)
        assert {int(own) for _, own in pairs} == expected, f"seed {seed}"
        assert all(offset[highest] > offset[own] for highest, own in pairs)
        found += len(expected)
    assert found > 1000


@pytest.mark.parametrize("numbers", [[], [3], [5, 3, 5, 4], [-2, 10**15, -2]], ids=str)
def test_distinct_numbers_are_those_of_numpy(numbers: list[int]) -> None:
    given = np.array(numbers, np.int64)
    assert distinct(given).tolist() == np.unique(given).tolist()
