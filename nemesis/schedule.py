"""Schedules: seeded sequences of faults as stories, so that a random run is as repeatable as a written one.

    random_story(["partition", "kill"], seed=7, duration_seconds=60, interval_seconds=8, nodes=5)

A fault holds for a while, is healed, and there is a spell without one. The last thing in a story is a heal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from harness.model.story import (
    A_LEADER_IS_KNOWN,
    FOLLOWERS,
    LEADER,
    Step,
    Ways,
    cut,
    drift,
    for_,
    heal,
    kill,
    once,
    pause,
    skew,
    split,
)

CALM_SHARE = 0.4
"""The part of an interval that is free of faults."""

RATES = (0.2, 0.5, 0.8, 1.25, 2.0)
"""Of drifting clocks; none so fast that a JVM, whose waits a fast clock prolongs, stalls for longer than the fault."""


def random_story(
    faults: Sequence[str], seed: int, duration_seconds: float, interval_seconds: float, nodes: int
) -> list[Step]:
    """Faults of these kinds, about one an interval, for about the duration; the same arguments give the same story."""
    drawn = random.Random(f"schedule {seed}")
    kinds = [fault for fault in faults if fault != "none"]
    if not kinds:
        return [for_(duration_seconds)]
    story: list[Step] = []
    elapsed = 0.0
    while elapsed < duration_seconds:
        interval = interval_seconds * drawn.uniform(0.5, 1.5)
        story += [*FAULTS[drawn.choice(kinds)](drawn, nodes), for_(round(interval * (1 - CALM_SHARE), 2)), heal()]
        story += [for_(round(interval * CALM_SHARE, 2))]
        elapsed += interval
    return [*story, once(A_LEADER_IS_KNOWN), for_(2.0)]


def _partition(drawn: random.Random, nodes: int) -> list[Step]:
    """The leader or a follower cut off, both ways or one way, or two halves."""
    ways: Ways = drawn.choice(["both", "both", "out", "in"])
    shapes = [cut(LEADER, ways), cut(FOLLOWERS, ways), _halves(drawn, nodes)]
    return [drawn.choice(shapes)]


def _halves(drawn: random.Random, nodes: int) -> Step:
    shuffled = drawn.sample(range(1, nodes + 1), nodes)
    middle = nodes // 2
    return split(shuffled[:middle], shuffled[middle:])


def _on_someone(deed: Callable[[str], Step]) -> Callable[[random.Random, int], list[Step]]:
    return lambda drawn, _nodes: [deed(drawn.choice([LEADER, FOLLOWERS]))]


def _clock(drawn: random.Random, _nodes: int) -> list[Step]:
    """A leap of up to two minutes either way, or clocks that go too slow or too fast."""
    who = drawn.choice([LEADER, FOLLOWERS])
    shapes = [skew(who, round(drawn.choice([-1, 1]) * drawn.uniform(0.1, 120), 3)), drift(who, drawn.choice(RATES))]
    return [drawn.choice(shapes)]


FAULTS: dict[str, Callable[[random.Random, int], list[Step]]] = {
    "partition": _partition,
    "kill": _on_someone(kill),
    "pause": _on_someone(pause),
    "clock": _clock,
}
