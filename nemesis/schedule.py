"""Schedules: seeded sequences of faults as stories, so that a random run is as repeatable as a written one.

    mix = Mix({"partition": 2, "kill": 1}, at_once=2)
    random_story(mix, faults, seed=7, duration_seconds=60, interval_seconds=8, nodes=5)

Some faults strike one after another and hold for a while, all are healed, and there is a spell without one: each
interval is such a rotation. The last thing in a story is a heal, and a quiet time before the final reads.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from harness.model.conditions import LEADER_KNOWN
from harness.model.story import Step, heal, sleep, wait_until
from nemesis.fault import Fault

CALM_SHARE = 0.4
"""The part of an interval that is free of faults."""


@dataclass(frozen=True, slots=True)
class Mix:
    """Which faults sequence, each with its weight, and how many of them, at most, at a time."""

    weights: Mapping[str, float]
    at_once: int = 1


def random_story(
    mix: Mix,
    faults: Mapping[str, Fault],
    seed: int,
    duration_seconds: float,
    interval_seconds: float,
    nodes: int,
    quiet_seconds: float = 2.0,
) -> list[Step]:
    """Faults of these kinds, one rotation an interval, for about the duration; the same arguments, the same story."""
    drawn = random.Random(f"schedule {seed}")
    if not mix.weights:
        return [sleep(duration_seconds)]
    story: list[Step] = []
    elapsed = 0.0
    while elapsed < duration_seconds:
        interval = interval_seconds * drawn.uniform(0.5, 1.5)
        sequences = [step for name in _names(drawn, mix) for step in faults[name].sample(drawn, nodes)]
        story += [*sequences, sleep(round(interval * (1 - CALM_SHARE), 2)), heal()]
        story += [sleep(round(interval * CALM_SHARE, 2))]
        elapsed += interval
    return [*story, wait_until(LEADER_KNOWN), sleep(quiet_seconds)]


def _names(drawn: random.Random, mix: Mix) -> list[str]:
    """The faults of one rotation: a random number of different ones, the heavier the likelier."""
    left = dict(mix.weights)
    chosen: list[str] = []
    for _ in range(drawn.randint(1, min(mix.at_once, len(left)))):
        (name,) = drawn.choices(list(left), list(left.values()))
        del left[name]
        chosen.append(name)
    return chosen
