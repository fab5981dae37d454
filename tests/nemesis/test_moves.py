"""Moves: every drawn sequence is a valid story, and the leader is gone for long enough."""

from __future__ import annotations

import random

import pytest

from harness.model.nemesis_ops import SLEEP
from harness.planning.story_steps import StoryStep
from nemesis.moves import MOVES, Draw, Timeouts

SEEDS = range(20)
TIMEOUTS = Timeouts(fetch_seconds=2, election_seconds=1)


@pytest.mark.parametrize("nodes", [3, 5])
@pytest.mark.parametrize("name", MOVES)
def test_every_step_of_a_move_is_valid(name: str, nodes: int) -> None:
    for seed in SEEDS:
        for step in MOVES[name](Draw(random.Random(seed), nodes, TIMEOUTS)):
            StoryStep.of(step)


@pytest.mark.parametrize(
    "name", ["leader cut off", "leader does not send", "leader does not receive", "leader loses a follower"]
)
def test_leader_is_gone_for_longer_than_an_election_takes(name: str) -> None:
    for seed in SEEDS:
        *_, last = MOVES[name](Draw(random.Random(seed), 3, TIMEOUTS))
        assert last.f == SLEEP
        assert last.value >= TIMEOUTS.replacement_seconds
