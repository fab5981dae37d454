"""Packet faults: which links a step means, what proves a shape, what is refused, and that healing clears every link."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace

import pytest

from harness.model import BadInput, PeerFailure
from harness.model.faults.packets import PROBE_FRAME_BITS, PacketReading, PacketShape, packets
from harness.model.story import LEADER
from nemesis.faults.packet_proof import UNTOUCHED, misfit, probes_for
from nemesis.faults.packets import FAULT, Treatment
from nodes.switch.shaping import ShapedLink

FRAME = bytes(PROBE_FRAME_BITS // 8)
EVERY = [[1, 2], [1, 3], [2, 1], [2, 3], [3, 1], [3, 2]]


class FakePackets:
    """Links that treat a burst of probes by the shape they have, or for those in `really` by another one."""

    technique = "fake"

    def __init__(self):
        self.shapes = {}
        self.really = {}
        self.rounds = 0

    async def shape(self, links, shape):
        self.shapes |= dict.fromkeys(links, shape)

    async def clear(self):
        self.shapes = {}

    async def read(self, probes):
        self.rounds += 1
        shapes = {link: self.really.get(link, self.shapes.get(link, UNTOUCHED)) for link in probes}
        return {link: burst(shapes[link], number, self.rounds) for link, number in probes.items()}


def burst(shape, number, seed=1):
    """The reading of so many probes, 10 microseconds apart, that meet the fates of this shape."""
    link = ShapedLink(shape, random.Random(seed))
    came = [(each, *fate) for each in range(number) for fate in link.shape_frame(FRAME, each * 1e-5)]
    whole = [each for each, _, frame in came if frame == FRAME]
    delays = tuple((due - each * 1e-5) * 1000 for each, due, frame in came if frame == FRAME)
    stamps = sorted(due for _, due, _ in came)
    passed = stamps[-1] - stamps[0] if len(stamps) > 1 else 0.0
    rate = (len(stamps) - 1) * PROBE_FRAME_BITS / passed / 1000 if passed else None
    return PacketReading(number, len(set(whole)), len(whole) - len(set(whole)), len(came) - len(whole), delays, rate)


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
    "all at once": PacketShape(40, 20, "normal", 0.2, 0.2, 0, 0.2, 8000),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_probes_of_a_link_that_has_the_shape_fit_it(shape):
    assert [misfit(shape, burst(shape, probes_for(shape), seed)) for seed in range(20)] == [None] * 20


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_probes_of_an_untouched_link_fit_no_shape(shape):
    assert all(misfit(shape, burst(UNTOUCHED, probes_for(shape), seed)) for seed in range(20))


# A bound that all traffic stays below does not touch it.
TOUCHING = {name: shape for name, shape in SHAPES.items() if name != "most bandwidth"}


@pytest.mark.parametrize("shape", TOUCHING.values(), ids=TOUCHING)
def test_a_link_that_should_be_untouched_and_has_a_shape_is_noticed(shape):
    assert misfit(UNTOUCHED, burst(shape, 1000))


def test_a_delay_twice_as_long_as_asked_or_without_its_jitter_is_noticed():
    asked = PacketShape(delay_ms=40, jitter_ms=10)
    twice, still = replace(asked, delay_ms=80), replace(asked, jitter_ms=0)
    assert "a delay of 80" in misfit(asked, burst(twice, 100))
    assert misfit(asked, burst(still, 100)) == "delays 0.0 ms around their mean, expected about 10"


FAINT = {
    "a short delay": ({"delay_ms": 0.5}, "less cannot be proved"),
    "more jitter than delay": ({"delay_ms": 5, "jitter_ms": 9}, "expected at most the delay_ms"),
    "a rare loss": ({"loss": 0.001}, "takes 20000 probes to be proved, and at most 3000"),
    "duplicates of what is lost": ({"loss": 0.99, "duplicate": 0.1}, "expected a greater chance"),
    "loss on a very narrow link": ({"loss": 0.1, "rate_kbit_per_second": 64}, "greater chance or bandwidth"),
    "reordering without a delay": ({"reorder": 0.1}, "reorder lets packets skip a delay"),
    "jitter on a narrow link": ({"delay_ms": 99, "jitter_ms": 99, "rate_kbit_per_second": 99}, "hides"),
    "nothing": ({}, "lets packets pass as they are"),
    "a role and links": ({"who": "leader", "links": [[1, 2]], "loss": 0.5}, "not both"),
}


@pytest.mark.parametrize(("value", "words"), FAINT.values(), ids=FAINT)
def test_a_plan_refuses_what_cannot_be_proved_or_means_nothing(value, words):
    with pytest.raises(ValueError, match=words):
        Treatment.model_validate(value)


@pytest.fixture
def shaping(context):
    context.packets = FakePackets()
    return context


def sequence(context, step):
    """Carry out a step as the nemesis's session does; what was done."""
    assert FAULT.unavailable(context, step.f) is None
    Treatment.model_validate_json(json.dumps(step.value))
    resolved = FAULT.resolve(context, step.f, step.value)
    assert FAULT.undo(step.f, resolved).details == {"links": resolved["links"]}
    return asyncio.run(FAULT.inject(context, step.f, resolved))


LOSSY = PacketShape(loss=0.5)
AIMS = {
    "all": (packets(LOSSY), EVERY, "50% loss on all links"),
    "what the leader sends": (packets(LOSSY, LEADER, "out"), [[2, 1], [2, 3]], "50% loss on n2>n1 n2>n3"),
    "what a node receives": (packets(LOSSY, "n1", "in"), [[2, 1], [3, 1]], "50% loss on n2>n1 n3>n1"),
    "links": (packets(LOSSY, links=[(3, 1)]), [[3, 1]], "50% loss on n3>n1"),
}


@pytest.mark.parametrize(("step", "links", "label"), AIMS.values(), ids=AIMS)
def test_a_step_shapes_the_links_it_means_and_no_others(shaping, step, links, label):
    done = sequence(shaping, step)
    assert (done["links"], done["label"], done["technique"]) == (links, label, "fake")
    assert sorted(map(list, shaping.packets.shapes)) == links


def test_a_label_names_all_that_befalls(shaping):
    shape = PacketShape(delay_ms=40, jitter_ms=5, loss=0.1, duplicate=0.2, corrupt=0.3, rate_kbit_per_second=8000)
    done = sequence(shaping, packets(shape, links=[(1, 2)]))
    assert done["label"] == "40 ±5 ms delay, 10% loss, 20% duplicate, 30% corrupt, 8000 kbit/s on n1>n2"


def test_a_second_deed_adds_its_links(shaping):
    sequence(shaping, packets(LOSSY, links=[(1, 2)]))
    sequence(shaping, packets(PacketShape(delay_ms=40), links=[(2, 1)]))
    assert shaping.packets.shapes == {(1, 2): LOSSY, (2, 1): PacketShape(delay_ms=40)}


def test_a_shape_without_effect_fails(shaping):
    shaping.packets.really = {(1, 2): UNTOUCHED}
    with pytest.raises(PeerFailure, match=r"proving packets by fake, 6 times: n1>n2: 0 of 100 missing, expected 2"):
        sequence(shaping, packets(LOSSY, "n1"))


def test_a_shape_that_touches_other_links_fails(shaping):
    shaping.packets.really = {(3, 1): PacketShape(delay_ms=20)}
    with pytest.raises(PeerFailure, match=r"n3>n1: a delay of 20\.0 ms, expected 0\.0 to 5\.0"):
        sequence(shaping, packets(LOSSY, links=[(1, 2)]))


def test_a_link_that_is_cut_is_left_out_of_the_proof(shaping):
    shaping.packets.really = {(3, 1): PacketShape(loss=1.0)}
    shaping.cut_links = frozenset({(3, 1)})
    assert sequence(shaping, packets(LOSSY))["links"] == EVERY


def test_healing_clears_and_proves_and_is_nothing_where_no_link_has_a_shape(shaping):
    asyncio.run(FAULT.heal(shaping))
    assert shaping.packets.rounds == 0
    sequence(shaping, packets(LOSSY))
    asyncio.run(FAULT.heal(shaping))
    assert shaping.packets.shapes == {}
    assert shaping.packets.rounds == 2


def test_a_link_that_stays_bad_after_healing_fails(shaping):
    sequence(shaping, packets(LOSSY))
    shaping.packets.really = {(1, 2): LOSSY}
    with pytest.raises(PeerFailure, match=r"n1>n2: \d+ of 100 missing, expected 0 to 0"):
        asyncio.run(FAULT.heal(shaping))


def test_links_of_nodes_that_are_not_there_are_refused(shaping):
    with pytest.raises(BadInput, match=r"expected nodes 1 to 3, came \[7\]"):
        sequence(shaping, packets(LOSSY, links=[(1, 7)]))


def test_hosts_that_cannot_shape_packets_say_so(context):
    assert FAULT.unavailable(context, next(iter(FAULT.actions))) == "hosts of this kind have no packets"


def test_whatever_is_drawn_is_taken_by_a_plan_and_can_be_proved():
    for seed in range(200):
        (step,) = FAULT.sample(random.Random(seed), 5)
        assert Treatment.model_validate(step.value)
        assert probes_for(PacketShape(**{k: v for k, v in step.value.items() if k not in ("who", "direction")})) > 5
