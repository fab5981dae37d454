"""Random numbers are those of SplitMix64."""

from __future__ import annotations

from collections import Counter

from harness.engine.randomness import draw, draw_below, split


def test_numbers_are_those_of_the_published_algorithm() -> None:
    first, seed = draw(1234567)
    second, _ = draw(seed)
    assert (first, second) == (6457827717110365317, 3203168211198807973)


def test_small_numbers_are_uniformly_distributed() -> None:
    seed, counts = 1, Counter[int]()
    for _ in range(6000):
        number, seed = draw_below(6, seed)
        counts[number] += 1
    assert set(counts) == set(range(6))
    assert all(850 < count < 1150 for count in counts.values())


def test_branches_of_one_seed_differ() -> None:
    assert len({split(seed, branch) for seed in range(10) for branch in range(10)}) == 100
