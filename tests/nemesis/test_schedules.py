"""Random schedules: reproducible by seed, healed after each rotation, of the requested duration and mix."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness import plugins
from harness.model.nemesis_ops import SLEEP
from harness.model.story import Step
from harness.planning.story_steps import StoryStep
from nemesis import schedule
from nemesis.faults.membership import VOTER_ACTIONS
from nemesis.schedule import Mix

FAULTS = plugins.faults()
BY_ACTION = plugins.actions()
seeds = st.integers(0, 2**31)
mixes = st.builds(
    Mix,
    st.dictionaries(st.sampled_from(sorted(FAULTS)), st.floats(0.1, 10), min_size=1),
    st.integers(1, 4),
)


def random_story(mix: Mix, seed: int, duration: float, interval: float, nodes: int) -> list[Step]:
    return schedule.random_story(mix, FAULTS, seed, duration, interval, nodes)


def rotations(story: list[Step]) -> list[list[str]]:
    """The actions before each heal, without sleeps."""
    found: list[list[str]] = [[]]
    for step in story:
        if step.f == "heal":
            found.append([])
        elif step.f != "sleep":
            found[-1].append(step.f)
    return found


@given(seeds, mixes)
def test_the_same_seed_gives_the_same_story(seed, mix):
    assert random_story(mix, seed, 60, 8, 5) == random_story(mix, seed, 60, 8, 5)


def test_different_seeds_give_different_stories():
    stories = [random_story(Mix({"partition": 1, "kill": 1}), seed, 60, 8, 5) for seed in range(20)]
    assert len({str(story) for story in stories}) == 20


@given(seeds)
def test_actions_that_the_system_does_not_support_are_not_drawn(seed):
    story = schedule.random_story(Mix({"membership": 1}), FAULTS, seed, 60, 8, 5, impossible=VOTER_ACTIONS)
    assert {action for actions in rotations(story) for action in actions} <= {"reassign", "elect", "await"}


def test_fault_whose_draws_are_all_impossible_has_a_reason():
    reasons = dict.fromkeys(VOTER_ACTIONS, "voters are fixed")
    assert schedule.why_never(FAULTS["membership"], 5, reasons) is None
    everything = dict.fromkeys(FAULTS["disk"].actions, "no disks")
    assert schedule.why_never(FAULTS["disk"], 5, everything) == "no disks"


@given(seeds, mixes)
def test_each_rotation_has_faults_of_the_mix_and_is_healed_before_the_next(seed, mix):
    *all_rotations, last = rotations(random_story(mix, seed, 60, 8, 5))
    assert last == ["await"]
    for actions in all_rotations:
        names = {BY_ACTION[action].name for action in actions if action != "await"}
        assert names
        assert names <= set(mix.weights)


@given(seeds, mixes)
def test_a_plan_accepts_every_random_story(seed, mix):
    for step in random_story(mix, seed, 30, 8, 5):
        assert StoryStep(f=step.f, value=step.value).step() == step


@given(seeds, st.floats(1, 300), st.floats(1, 30))
def test_a_story_has_about_the_requested_duration(seed, duration, interval):
    *steps, _, _ = random_story(Mix({"clock": 1, "rpc": 1}, 1), seed, duration, interval, 3)
    calm = [step.value for before, step in pairwise(steps) if before.f == "heal"]
    held = [step.value for step, after in pairwise(steps) if after.f == "heal"]
    within_faults = sum(step.value for step in steps if step.f == SLEEP) - sum(calm) - sum(held)
    total = sum(calm) / 0.4 + within_faults
    rounding = 0.005 * len(calm) / 0.4
    assert duration - rounding <= total <= duration + 1.5 * interval + within_faults + rounding


@given(seeds)
def test_a_rotation_has_at_most_at_once_faults(seed):
    mix = Mix(dict.fromkeys(["partition", "pause", "clock", "rpc"], 1.0), at_once=2)
    *all_rotations, _ = rotations(random_story(mix, seed, 60, 8, 5))
    assert max(len({BY_ACTION[action].name for action in actions}) for actions in all_rotations) <= 2


def test_some_rotations_combine_faults_if_allowed():
    mix = Mix({"partition": 1.0, "pause": 1.0}, at_once=2)
    found = [actions for seed in range(20) for actions in rotations(random_story(mix, seed, 60, 8, 5))[:-1]]
    assert {len({BY_ACTION[action].name for action in actions}) for actions in found} == {1, 2}


def test_a_fault_with_more_weight_is_more_frequent():
    stories = [random_story(Mix({"pause": 9.0, "clock": 1.0}), seed, 60, 8, 3) for seed in range(40)]
    count = Counter(BY_ACTION[actions[0]].name for story in stories for actions in rotations(story)[:-1])
    assert count["pause"] > 5 * count["clock"]


def test_halves_name_every_node_once():
    stories = [random_story(Mix({"partition": 1}), seed, 60, 8, 5) for seed in range(20)]
    splits = [step.value["groups"] for story in stories for step in story if step.f == "cut" and "groups" in step.value]
    assert splits
    assert all(sorted(some + others) == [1, 2, 3, 4, 5] for some, others in splits)


def test_no_faults_means_time_without_faults():
    assert [step.f for step in random_story(Mix({}), 7, 60, 8, 3)] == ["sleep"]


@given(seeds, mixes)
def test_a_story_lasts_the_duration_and_at_most_one_rotation_longer(seed, mix):
    story = random_story(mix, seed, 60, 4, 5)
    pauses = [step.value for step in story if step.f == "sleep"]
    heals = [at for at, step in enumerate(story) if step.f == "heal"]
    before_the_last_rotation = [
        step.value for step in story[: heals[-2] + 2 if len(heals) > 1 else 0] if step.f == "sleep"
    ]
    assert sum(pauses) >= 59.9  # they are rounded
    assert sum(before_the_last_rotation) < 60.1
