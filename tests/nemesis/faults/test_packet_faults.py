"""Packet faults: which links a step shapes, how a shape is verified, what is refused, and how links are cleared."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from harness.model import BadInput, PeerFailure
from harness.model.faults.packets import PROBE_FRAME_BITS, PacketReading, PacketShape, packets
from harness.model.story import LEADER
from nemesis.faults.packet_verification import UNSHAPED, mismatch, probe_count
from nemesis.faults.packets import FAULT, Shaping
from nodes.switch.shaping import ShapedLink

FRAME = bytes(PROBE_FRAME_BITS // 8)
EVERY = [[1, 2], [1, 3], [2, 1], [2, 3], [3, 1], [3, 2]]


class FakePackets:
    """Fake links that shape a burst of probes by their shape, or by another one in `actual`."""

    technique = "fake"

    def __init__(self):
        self.shapes = {}
        self.actual = {}
        self.rounds = 0

    async def shape(self, links, shape):
        self.shapes |= dict.fromkeys(links, shape)

    async def clear(self):
        self.shapes = {}

    async def read(self, probes):
        self.rounds += 1
        shapes = {link: self.actual.get(link, self.shapes.get(link, UNSHAPED)) for link in probes}
        return {link: burst(shapes[link], number, self.rounds) for link, number in probes.items()}


def burst(shape, number, seed=1):
    """The reading of this many probes, 10 microseconds apart, on a link of this shape."""
    link = ShapedLink(shape, random.Random(seed))
    arrived = [(each, *copy) for each in range(number) for copy in link.shape_frame(FRAME, each * 1e-5)]
    whole = [each for each, _, frame in arrived if frame == FRAME]
    delays = tuple((due - each * 1e-5) * 1000 for each, due, frame in arrived if frame == FRAME)
    stamps = sorted(due for _, due, _ in arrived)
    elapsed = stamps[-1] - stamps[0] if len(stamps) > 1 else 0.0
    rate = (len(stamps) - 1) * PROBE_FRAME_BITS / elapsed / 1000 if elapsed else None
    return PacketReading(number, len(set(whole)), len(whole) - len(set(whole)), len(arrived) - len(whole), delays, rate)


SHAPES = {
    "delay": PacketShape(delay_ms=40),
    "uniform jitter": PacketShape(delay_ms=40, jitter_ms=20),
    "normal jitter": PacketShape(delay_ms=40, jitter_ms=20, distribution="normal"),
    "pareto jitter": PacketShape(delay_ms=40, jitter_ms=20, distribution="pareto"),
    "loss": PacketShape(loss=0.1),
    "rare loss": PacketShape(loss=0.01),
    "total loss": PacketShape(loss=1.0),
    "duplicates": PacketShape(duplicate=0.1),
    "reordering": PacketShape(delay_ms=40, reorder=0.1),
    "damage": PacketShape(corrupt=0.1),
    "bandwidth": PacketShape(rate_kbit_per_second=1000),
    "least bandwidth": PacketShape(rate_kbit_per_second=64),
    "most bandwidth": PacketShape(rate_kbit_per_second=50_000),
    "combined": PacketShape(40, 20, "normal", 0.2, 0.2, 0, 0.2, 8000),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_probes_of_a_shaped_link_match_its_shape(shape):
    assert [mismatch(shape, burst(shape, probe_count(shape), seed)) for seed in range(20)] == [None] * 20


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_probes_of_an_unshaped_link_match_no_shape(shape):
    assert all(mismatch(shape, burst(UNSHAPED, probe_count(shape), seed)) for seed in range(20))


# A limit above all traffic has no effect.
EFFECTIVE = {name: shape for name, shape in SHAPES.items() if name != "most bandwidth"}


@pytest.mark.parametrize("shape", EFFECTIVE.values(), ids=EFFECTIVE)
def test_a_shape_on_a_link_that_should_have_none_is_detected(shape):
    assert mismatch(UNSHAPED, burst(shape, 1000))


def test_a_delay_that_is_too_long_or_lacks_its_jitter_is_detected():
    requested = PacketShape(delay_ms=40, jitter_ms=10)
    doubled, without_jitter = replace(requested, delay_ms=80), replace(requested, jitter_ms=0)
    assert "a delay of 80" in mismatch(requested, burst(doubled, 100))
    assert mismatch(requested, burst(without_jitter, 100)) == "a jitter of 0.0 ms, expected about 10"


REFUSED = {
    "a short delay": ({"delay_ms": 0.5}, "less cannot be verified"),
    "more jitter than delay": ({"delay_ms": 5, "jitter_ms": 9}, "expected at most delay_ms"),
    "a rare loss": ({"loss": 0.001}, "probability of 0.001 takes 20000 probes, at most 3000"),
    "duplicates of what is lost": ({"loss": 0.99, "duplicate": 0.1}, "expected a higher probability"),
    "loss on a very narrow link": ({"loss": 0.1, "rate_kbit_per_second": 64}, "higher probability or bandwidth"),
    "reordering without a delay": ({"reorder": 0.1}, "reordered packets skip the delay"),
    "jitter on a narrow link": ({"delay_ms": 99, "jitter_ms": 99, "rate_kbit_per_second": 99}, "hides"),
    "nothing": ({}, "this shape has no effect"),
    "a role and links": ({"who": "leader", "links": [[1, 2]], "loss": 0.5}, "not both"),
}


@pytest.mark.parametrize(("value", "words"), REFUSED.values(), ids=REFUSED)
def test_a_plan_refuses_shapes_that_are_invalid_or_cannot_be_verified(value, words):
    with pytest.raises(ValueError, match=words):
        Shaping.model_validate(value)


@pytest.fixture
def shaping(context):
    context.packets = FakePackets()
    return context


def inject(context, step):
    """Inject a step as the nemesis's session does; returns what was done."""
    assert FAULT.unavailable(context, step.f) is None
    resolved = FAULT.resolve(context, step.f, FAULT.actions[step.f].complete(step.value))
    assert FAULT.undo(step.f, resolved).details == {"links": resolved["links"]}
    return asyncio.run(FAULT.inject(context, step.f, resolved))


LOSSY = PacketShape(loss=0.5)
LINKS = {
    "all": (packets(LOSSY), EVERY, "50% loss on all links"),
    "what the leader sends": (packets(LOSSY, LEADER, "out"), [[2, 1], [2, 3]], "50% loss on n2>n1 n2>n3"),
    "what a node receives": (packets(LOSSY, "n1", "in"), [[2, 1], [3, 1]], "50% loss on n2>n1 n3>n1"),
    "links": (packets(LOSSY, links=[(3, 1)]), [[3, 1]], "50% loss on n3>n1"),
}


@pytest.mark.parametrize(("step", "links", "label"), LINKS.values(), ids=LINKS)
def test_a_step_shapes_only_the_named_links(shaping, step, links, label):
    done = inject(shaping, step)
    assert (done["links"], done["label"], done["technique"]) == (links, label, "fake")
    assert sorted(map(list, shaping.packets.shapes)) == links


def test_a_label_names_all_effects(shaping):
    shape = PacketShape(delay_ms=40, jitter_ms=5, loss=0.1, duplicate=0.2, corrupt=0.3, rate_kbit_per_second=8000)
    done = inject(shaping, packets(shape, links=[(1, 2)]))
    assert done["label"] == "40 ±5 ms delay, 10% loss, 20% duplicate, 30% corrupt, 8000 kbit/s on n1>n2"


def test_a_second_action_adds_its_links(shaping):
    inject(shaping, packets(LOSSY, links=[(1, 2)]))
    inject(shaping, packets(PacketShape(delay_ms=40), links=[(2, 1)]))
    assert shaping.packets.shapes == {(1, 2): LOSSY, (2, 1): PacketShape(delay_ms=40)}


def test_a_shape_without_effect_fails(shaping):
    shaping.packets.actual = {(1, 2): UNSHAPED}
    with pytest.raises(PeerFailure, match=r"verifying packets by fake, 6 tries: n1>n2: 0 of 100 lost, expected 2"):
        inject(shaping, packets(LOSSY, "n1"))


def test_a_shape_that_affects_other_links_fails(shaping):
    shaping.packets.actual = {(3, 1): PacketShape(delay_ms=20)}
    with pytest.raises(PeerFailure, match=r"n3>n1: a delay of 20\.0 ms, expected 0\.0 to 5\.0"):
        inject(shaping, packets(LOSSY, links=[(1, 2)]))


def test_a_cut_link_is_not_verified(shaping):
    shaping.packets.actual = {(3, 1): PacketShape(loss=1.0)}
    shaping.cut_links = frozenset({(3, 1)})
    assert inject(shaping, packets(LOSSY))["links"] == EVERY


def test_healing_clears_and_verifies_links_if_any_has_a_shape(shaping):
    asyncio.run(FAULT.heal(shaping))
    assert shaping.packets.rounds == 0
    inject(shaping, packets(LOSSY))
    asyncio.run(FAULT.heal(shaping))
    assert shaping.packets.shapes == {}
    assert shaping.packets.rounds == 2


def test_healing_fails_if_a_link_keeps_its_shape(shaping):
    inject(shaping, packets(LOSSY))
    shaping.packets.actual = {(1, 2): LOSSY}
    with pytest.raises(PeerFailure, match=r"n1>n2: \d+ of 100 lost, expected 0 to 0"):
        asyncio.run(FAULT.heal(shaping))


def test_links_of_unknown_nodes_are_refused(shaping):
    with pytest.raises(BadInput, match=r"expected nodes 1 to 3, found \[7\]"):
        inject(shaping, packets(LOSSY, links=[(1, 7)]))


def test_hosts_without_packet_shaping_make_the_fault_unavailable(context):
    assert FAULT.unavailable(context, next(iter(FAULT.actions))) == "hosts of this kind have no packets"


def test_every_sample_is_valid_in_a_plan_and_can_be_verified():
    for seed in range(200):
        (step,) = FAULT.sample(random.Random(seed), 5)
        assert Shaping.model_validate(step.value)
        assert probe_count(PacketShape(**{k: v for k, v in step.value.items() if k not in ("who", "direction")})) > 5
