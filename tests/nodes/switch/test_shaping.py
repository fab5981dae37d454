"""Shaping of one link: probabilities, delays and bandwidth, with a simulated clock and a seeded random source."""

from __future__ import annotations

import random
import statistics

import pytest

from harness.model.faults.packets import PacketShape
from nodes.switch.shaping import HEADERS_BYTES, QUEUE_SECONDS_MAX, ShapedLink

FRAME = bytes(range(200))
PACKETS = 4000


def shaped(shape, packets=PACKETS, seed=1, interval_seconds=1.0):
    """For each packet, the delay (ms) and content of every copy that arrives."""
    link = ShapedLink(shape, random.Random(seed))
    times = [number * interval_seconds for number in range(packets)]
    return [[((due - now) * 1000, frame) for due, frame in link.shape_frame(FRAME, now)] for now in times]


def test_the_default_shape_changes_nothing():
    assert shaped(PacketShape(), packets=50) == [[(0.0, FRAME)]] * 50


def test_a_delay_without_jitter_is_constant():
    assert {round(ms, 6) for ((ms, _),) in shaped(PacketShape(delay_ms=40))} == {40.0}


@pytest.mark.parametrize(
    ("distribution", "deviation_ms", "least_ms", "most_ms"),
    [("uniform", 11.5, 20, 60), ("normal", 20, 0, 200), ("pareto", 20, 28, 200.1)],
)
def test_jitter_spreads_delays_around_their_mean(distribution, deviation_ms, least_ms, most_ms):
    delays = [ms for ((ms, _),) in shaped(PacketShape(delay_ms=40, jitter_ms=20, distribution=distribution))]
    assert statistics.fmean(delays) == pytest.approx(40, rel=0.05)
    assert statistics.pstdev(delays) == pytest.approx(deviation_ms, rel=0.2)
    assert least_ms <= min(delays)
    assert max(delays) <= most_ms


def test_no_delay_is_negative():
    assert min(ms for ((ms, _),) in shaped(PacketShape(delay_ms=5, jitter_ms=5, distribution="normal"))) == 0.0


COUNTS = {
    "lost": (PacketShape(loss=0.3), lambda copies: not copies),
    "duplicated": (PacketShape(duplicate=0.3), lambda copies: len(copies) == 2),
    "reordered": (PacketShape(delay_ms=40, reorder=0.3), lambda copies: copies[0][0] == 0.0),
    "corrupted": (PacketShape(corrupt=0.3), lambda copies: copies[0][1] != FRAME),
}


@pytest.mark.parametrize(("shape", "is_affected"), COUNTS.values(), ids=COUNTS)
def test_the_given_share_of_packets_is(shape, is_affected):
    assert sum(map(is_affected, shaped(shape))) == pytest.approx(0.3 * PACKETS, rel=0.1)


def test_corruption_flips_one_bit_behind_the_headers():
    for ((_, frame),) in shaped(PacketShape(corrupt=1.0), packets=300):
        changed = [(index, a ^ b) for index, (a, b) in enumerate(zip(FRAME, frame, strict=True)) if a != b]
        assert len(changed) == 1
        assert changed[0][0] >= HEADERS_BYTES
        assert changed[0][1].bit_count() == 1


def test_a_limited_bandwidth_serializes_packets():
    eight_ms_each = PacketShape(rate_kbit_per_second=200)
    delays = [copies[0][0] for copies in shaped(eight_ms_each, packets=5, interval_seconds=0.001)]
    assert delays == pytest.approx([8, 15, 22, 29, 36])


def test_packets_that_exceed_the_queue_of_a_limited_bandwidth_are_lost():
    burst = shaped(PacketShape(rate_kbit_per_second=200), packets=100, interval_seconds=0.0)
    arrived = [copies[0][0] for copies in burst if copies]
    assert len(arrived) == 62
    assert max(arrived) <= QUEUE_SECONDS_MAX * 1000


def test_the_same_seed_gives_the_same_result_and_another_seed_a_different_one():
    shape = PacketShape(delay_ms=40, jitter_ms=20, loss=0.3, duplicate=0.3, corrupt=0.3)
    assert shaped(shape, packets=50) == shaped(shape, packets=50)
    assert shaped(shape, packets=50) != shaped(shape, packets=50, seed=2)
