"""Who was what when: state spans and epoch steps of each node, from observations.

A node's log tells its transitions, its process when it was up. A span begins with a transition and ends with the
next one, with the end of the process, or with the run.

What may live here: pure functions on observations. What may not: reading files, drawing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from harness.model import Observation
from results.data import DOWN, EpochStep, StateSpan


def state_spans(observations: Iterable[Observation], end_ns: int) -> tuple[StateSpan, ...]:
    """The spans of every node, by node and time; times before the run are moved to its beginning."""
    by_node: defaultdict[int, list[Observation]] = defaultdict(list)
    for seen in observations:
        if seen.kind in ("transition", "started", "stopped"):
            by_node[seen.node].append(seen)
    return tuple(
        span
        for node in sorted(by_node)
        for span in _merged(_spans_of(sorted(by_node[node], key=lambda seen: seen.time_ns), end_ns))
    )


def _spans_of(changes: list[Observation], end_ns: int) -> Iterator[StateSpan]:
    """Each change with the one after it bounds a span, save where what the node was in between is not known."""
    first = changes[0]
    if first.kind == "transition" and first.previous:
        yield _span(first, first.previous, None, 0, first.time_ns)
    end = Observation(max(end_ns, changes[-1].time_ns), first.node, "process", "note")
    for change, following in pairwise([*changes, end]):
        if change.kind == "stopped":
            yield _span(change, DOWN, None, change.time_ns, following.time_ns)
        elif change.kind == "transition" and change.state:
            yield _span(change, change.state, change.epoch, change.time_ns, following.time_ns)
        elif following.kind == "transition" and following.previous:
            yield _span(change, following.previous, None, change.time_ns, following.time_ns)


def _span(change: Observation, state: str, epoch: int | None, start_ns: int, end_ns: int) -> StateSpan:
    return StateSpan(change.node, state, epoch, max(0, start_ns), max(0, end_ns))


def _merged(spans: Iterator[StateSpan]) -> Iterator[StateSpan]:
    """Adjacent spans of one state and epoch as one; spans without width left out."""
    last: StateSpan | None = None
    for span in spans:
        if span.end_ns <= span.start_ns:
            continue
        if last and (last.state, last.epoch, last.end_ns) == (span.state, span.epoch, span.start_ns):
            last = StateSpan(last.node, last.state, last.epoch, last.start_ns, span.end_ns)
            continue
        if last:
            yield last
        last = span
    if last:
        yield last


def epoch_steps(observations: Iterable[Observation]) -> tuple[EpochStep, ...]:
    """Where the epoch that a node was seen in changes, by node and time, from whatever source told of it."""
    seen = [each for each in observations if each.epoch is not None]
    latest: dict[int, int] = {}
    steps: list[EpochStep] = []
    for each in sorted(seen, key=lambda each: (each.node, each.time_ns)):
        if each.epoch is not None and latest.get(each.node) != each.epoch:
            latest[each.node] = each.epoch
            steps.append(EpochStep(each.node, each.epoch, max(0, each.time_ns)))
    return tuple(steps)
