"""Random schedules: stories of random faults, reproducible by seed.

    mix = Mix({"partition": 2, "kill": 1}, at_once=2)
    random_story(mix, faults, seed=7, duration_seconds=60, interval_seconds=8, nodes=5)

Each interval is one rotation: inject one or more faults, wait, heal all, wait without faults. A story ends with a heal
and a quiet period before the final reads.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from harness.model.conditions import LEADER_KNOWN
from harness.model.nemesis_ops import SLEEP
from harness.model.story import Step, heal, sleep, wait_until
from nemesis.fault import Fault

SAMPLES = 100
"""How many draws of a fault show all that it can do."""
CALM_SHARE = 0.4
"""The share of an interval without faults."""


@dataclass(frozen=True, slots=True)
class Mix:
    """The faults to choose from, each with its weight, and the maximum number of them at a time."""

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
    impossible: Collection[str] = (),
) -> list[Step]:
    """One rotation per interval until the duration is reached; the same arguments give the same story.

    impossible are actions that the system does not support; each fault needs some that are possible.
    A rotation that has begun is completed, so the story may last one rotation longer.
    """
    random_source = random.Random(f"schedule {seed}")
    if not mix.weights:
        return [sleep(duration_seconds)]
    story: list[Step] = []
    elapsed = 0.0
    while elapsed < duration_seconds:
        interval = interval_seconds * random_source.uniform(0.5, 1.5)
        names = _names(random_source, mix)
        steps = [step for name in names for step in _sample(faults[name], random_source, nodes, impossible)]
        story += [*steps, sleep(round(interval * (1 - CALM_SHARE), 2)), heal()]
        story += [sleep(round(interval * CALM_SHARE, 2))]
        elapsed += interval + sum(step.value for step in steps if step.f == SLEEP)
    return [*story, wait_until(LEADER_KNOWN), sleep(quiet_seconds)]


def why_never(fault: Fault, nodes: int, impossible: Mapping[str, str]) -> str | None:
    """Why none of a fault's random steps is possible, by the reasons of impossible actions; None if some are."""
    random_source, reason = random.Random(0), None
    for _ in range(SAMPLES):
        reasons = [impossible[step.f] for step in fault.sample(random_source, nodes) if step.f in impossible]
        if not reasons:
            return None
        reason = reasons[0]
    return reason


def _sample(fault: Fault, random_source: random.Random, nodes: int, impossible: Collection[str]) -> Sequence[Step]:
    """A fault's random steps, none of which is impossible."""
    steps = fault.sample(random_source, nodes)
    while any(step.f in impossible for step in steps):
        steps = fault.sample(random_source, nodes)
    return steps


def _names(random_source: random.Random, mix: Mix) -> list[str]:
    """The names of one rotation's faults: a random number of different ones, chosen by weight."""
    left = dict(mix.weights)
    chosen: list[str] = []
    for _ in range(random_source.randint(1, min(mix.at_once, len(left)))):
        (name,) = random_source.choices(list(left), list(left.values()))
        del left[name]
        chosen.append(name)
    return chosen
