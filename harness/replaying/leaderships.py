"""Which nodes led during a recorded run, in order, and who followed them.

    leaderships(observed)       # Leadership(time_ms=577.0, end_ms=4711.0, node=3, epoch=1, …), …
    leaders_in_turn(run)        # ["n3", "n1"]

Contains what is derived of one run. Does not contain a comparison of runs (replay), or a story (process_story).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from harness.chunks import read_table
from harness.model import Observation
from harness.model.quorum_states import State
from harness.model.records.tables import HISTORY, OBSERVATIONS
from harness.model.story import MARK, STORY_BEGINS
from results.reading.rows import nemesis_ops_of, observations_of
from results.reading.spans import state_spans
from results.store import RunDirectory

LED_MS: Final = 100
"""A leader of a shorter time that did not fail, and was not the last, is not waited for: it might not be seen."""


class Leadership(NamedTuple):
    """A node that led for a while, and when others began to follow it. ends_itself: it resigned or exited."""

    time_ms: float
    end_ms: float
    node: int
    epoch: int | None
    ends_itself: bool
    followers: Sequence[tuple[float, int]]


def leaders_in_turn(run: RunDirectory) -> list[str]:
    """The nodes that led for some time, in order, since the story of the run has begun."""
    marks = (op for op in nemesis_ops_of(read_table(run.history, HISTORY)) if op.f == MARK)
    begin_ns = next((op.time_ns for op in marks if op.value == STORY_BEGINS), 0)
    observed = observations_of(read_table(run.observations, OBSERVATIONS))
    return [f"n{led.node}" for led in leaderships(observed) if led.end_ms * 1e6 > begin_ns]


def leaderships(observed: Sequence[Observation]) -> Iterator[Leadership]:
    """The nodes that led for some time, in order."""
    following: dict[int | None, list[tuple[float, int]]] = {}
    for each in observed:
        if each.kind == "transition" and each.state == State.FOLLOWER.value:
            following.setdefault(each.epoch, []).append((each.time_ns / 1e6, each.node))
    end_ns = max((each.time_ns for each in observed), default=0)
    spans = state_spans(observed, end_ns)
    ends = {(span.node, span.start_ns) for span in spans if span.state == State.RESIGNED.value}
    ends |= {(each.node, each.time_ns) for each in observed if each.kind == "exited"}
    failed = {(each.node, each.time_ns) for each in observed if each.kind == "stopped"}
    for span in sorted(spans, key=lambda span: span.start_ns):
        is_over = (span.node, span.end_ns) not in failed and span.end_ns < end_ns
        is_short = is_over and span.end_ns - span.start_ns < LED_MS * 1e6
        if span.state == State.LEADER.value and not is_short:
            ends_itself, followers = (span.node, span.end_ns) in ends, following.get(span.epoch, ())
            yield Leadership(span.start_ns / 1e6, span.end_ns / 1e6, span.node, span.epoch, ends_itself, followers)
