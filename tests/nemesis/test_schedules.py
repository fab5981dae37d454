"""Random schedules: repeatable by seed, healed after every fault, as long as asked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nemesis.schedule import FAULTS, random_story

seeds = st.integers(0, 2**31)
kinds = st.lists(st.sampled_from(sorted(FAULTS)), min_size=1, unique=True)
FAULT_DEEDS = {"cut", "kill", "pause", "skew", "drift"}


@given(seeds, kinds)
def test_the_same_seed_tells_the_same_story(seed, faults):
    assert random_story(faults, seed, 60, 8, 5) == random_story(faults, seed, 60, 8, 5)


def test_different_seeds_tell_different_stories():
    stories = [random_story(["partition", "kill"], seed, 60, 8, 5) for seed in range(20)]
    assert len({str(story) for story in stories}) == 20


@given(seeds, kinds)
def test_every_fault_holds_for_a_while_and_is_healed_before_the_next(seed, faults):
    *told, awaited, settled = random_story(faults, seed, 60, 8, 5)
    assert (awaited.f, settled.f) == ("await", "hold")
    deeds = [step.f for step in told]
    assert set(deeds[0::4]) <= FAULT_DEEDS
    assert deeds[1::4] == deeds[3::4] == ["hold"] * (len(deeds) // 4)
    assert deeds[2::4] == ["heal"] * (len(deeds) // 4)


@given(seeds, kinds, st.floats(1, 300), st.floats(1, 30))
def test_a_story_is_about_as_long_as_asked(seed, faults, duration, interval):
    *told, _, _ = random_story(faults, seed, duration, interval, 3)
    held = sum(step.value for step in told if step.f == "hold")
    assert duration - 0.01 * len(told) <= held <= duration + 1.5 * interval + 0.01 * len(told)


@given(seeds)
def test_only_the_kinds_asked_for_are_drawn(seed):
    assert {step.f for step in random_story(["kill"], seed, 60, 8, 3)} & FAULT_DEEDS == {"kill"}


def test_halves_name_every_node_once():
    stories = [random_story(["partition"], seed, 60, 8, 5) for seed in range(20)]
    cuts = [step.value for story in stories for step in story if step.f == "cut"]
    splits = [value["groups"] for value in cuts if "groups" in value]
    assert splits
    assert all(sorted(some + others) == [1, 2, 3, 4, 5] for some, others in splits)


def test_no_faults_means_time_without_faults():
    assert [step.f for step in random_story(["none"], 7, 60, 8, 3)] == ["hold"]
