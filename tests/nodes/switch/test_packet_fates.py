"""What becomes of packets on one link: chances, delays and bandwidth, on a given time with a given source of chance."""

from __future__ import annotations

import random
import statistics

import pytest

from harness.model.faults.packets import PacketShape
from nodes.switch.shaping import HEADERS_BYTES, QUEUE_SECONDS_MAX, ShapedLink

FRAME = bytes(range(200))
PACKETS = 4000


def shapings(shape, packets=PACKETS, seed=1, apart_seconds=1.0):
    """What becomes of packets that come one by one: for each, how long each copy takes (ms) and what it is."""
    link = ShapedLink(shape, random.Random(seed))
    came = [number * apart_seconds for number in range(packets)]
    return [[((due - now) * 1000, frame) for due, frame in link.pass_on(FRAME, now)] for now in came]


def test_the_default_lets_packets_pass_at_once_and_as_they_are():
    assert shapings(PacketShape(), packets=50) == [[(0.0, FRAME)]] * 50


def test_a_delay_without_jitter_is_the_same_for_all():
    assert {round(ms, 6) for ((ms, _),) in shapings(PacketShape(delay_ms=40))} == {40.0}


@pytest.mark.parametrize(
    ("distribution", "deviation_ms", "least_ms", "most_ms"),
    [("uniform", 11.5, 20, 60), ("normal", 20, 0, 200), ("pareto", 20, 28, 200.1)],
)
def test_jitter_spreads_delays_about_their_mean(distribution, deviation_ms, least_ms, most_ms):
    delays = [ms for ((ms, _),) in shapings(PacketShape(delay_ms=40, jitter_ms=20, distribution=distribution))]
    assert statistics.fmean(delays) == pytest.approx(40, rel=0.05)
    assert statistics.pstdev(delays) == pytest.approx(deviation_ms, rel=0.2)
    assert least_ms <= min(delays)
    assert max(delays) <= most_ms


def test_no_delay_is_negative():
    assert min(ms for ((ms, _),) in shapings(PacketShape(delay_ms=5, jitter_ms=5, distribution="normal"))) == 0.0


COUNTS = {
    "lost": (PacketShape(loss=0.3), lambda copies: not copies),
    "doubled": (PacketShape(duplicate=0.3), lambda copies: len(copies) == 2),
    "ahead of their turn": (PacketShape(delay_ms=40, reorder=0.3), lambda copies: copies[0][0] == 0.0),
    "damaged": (PacketShape(corrupt=0.3), lambda copies: copies[0][1] != FRAME),
}


@pytest.mark.parametrize(("shape", "befell"), COUNTS.values(), ids=COUNTS)
def test_so_many_packets_are(shape, befell):
    assert sum(map(befell, shapings(shape))) == pytest.approx(0.3 * PACKETS, rel=0.1)


def test_damage_is_one_bit_behind_the_headers():
    for ((_, frame),) in shapings(PacketShape(corrupt=1.0), packets=300):
        wrong = [(place, a ^ b) for place, (a, b) in enumerate(zip(FRAME, frame, strict=True)) if a != b]
        assert len(wrong) == 1
        assert wrong[0][0] >= HEADERS_BYTES
        assert wrong[0][1].bit_count() == 1


def test_packets_leave_a_narrow_link_one_after_the_other():
    eight_ms_each = PacketShape(rate_kbit_per_second=200)
    delays = [copies[0][0] for copies in shapings(eight_ms_each, packets=5, apart_seconds=0.001)]
    assert delays == pytest.approx([8, 15, 22, 29, 36])


def test_a_narrow_link_that_is_given_too_much_loses_what_does_not_fit_its_queue():
    at_once = shapings(PacketShape(rate_kbit_per_second=200), packets=100, apart_seconds=0.0)
    arrived = [copies[0][0] for copies in at_once if copies]
    assert len(arrived) == 62
    assert max(arrived) <= QUEUE_SECONDS_MAX * 1000


def test_the_same_seed_gives_the_same_fates_and_another_gives_others():
    shape = PacketShape(delay_ms=40, jitter_ms=20, loss=0.3, duplicate=0.3, corrupt=0.3)
    assert shapings(shape, packets=50) == shapings(shape, packets=50)
    assert shapings(shape, packets=50) != shapings(shape, packets=50, seed=2)
