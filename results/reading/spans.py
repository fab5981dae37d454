"""The state spans and epoch steps of each node, from observations.

The transitions come from a node's log, its starts and stops from its process. A span begins with a transition and ends
with the next one, with the end of the process, or with the run. Nodes of a system without transitions, e.g. brokers
with ZooKeeper, lead from the first to the last of their claims of an epoch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from harness.model import Observation
from harness.model.quorum_states import State
from harness.model.records.observation import ENDS
from results.data import DOWN, EpochStep, StateSpan

CLAIMS_APART_NS = 2_000_000_000
"""Claims that are further apart belong to different spans: a node is polled several times a second."""


def state_spans(observations: Iterable[Observation], end_ns: int) -> tuple[StateSpan, ...]:
    """The spans of every node, by node and time; times before the run become 0."""
    by_node: defaultdict[int, list[Observation]] = defaultdict(list)
    claims: defaultdict[int, list[Observation]] = defaultdict(list)
    has_transitions = False
    for each in sorted(observations, key=lambda each: each.time_ns):
        if each.kind in ("transition", "started", *ENDS):
            by_node[each.node].append(each)
            has_transitions |= each.kind == "transition"
        elif each.kind == "claim":
            claims[each.node].append(each)
    changes = (span for node in sorted(by_node) for span in _merged(_spans_of(by_node[node], end_ns)))
    led = (span for node in sorted(claims) for span in _merged(_claimed(claims[node])))
    return tuple(changes) if has_transitions else tuple(sorted((*changes, *led), key=_by_node_and_time))


def _by_node_and_time(span: StateSpan) -> tuple[int, int]:
    return span.node, span.start_ns


def _claimed(claims: list[Observation]) -> Iterator[StateSpan]:
    """A span between each claim and the next one of its epoch, unless they are too far apart."""
    for claim, following in pairwise(claims):
        if claim.epoch == following.epoch and following.time_ns - claim.time_ns <= CLAIMS_APART_NS:
            yield _span(claim, State.LEADER.value, claim.epoch, claim.time_ns, following.time_ns)


def _spans_of(changes: list[Observation], end_ns: int) -> Iterator[StateSpan]:
    """A span between each change and the next one, unless the state in between is unknown."""
    first = changes[0]
    if first.kind == "transition" and first.previous:
        yield _span(first, first.previous, None, 0, first.time_ns)
    end = Observation(max(end_ns, changes[-1].time_ns), first.node, "process", "note")
    for change, following in pairwise([*changes, end]):
        if change.kind in ENDS:
            yield _span(change, DOWN, None, change.time_ns, following.time_ns)
        elif change.kind == "transition" and change.state:
            yield _span(change, change.state, change.epoch, change.time_ns, following.time_ns)
        elif following.kind == "transition" and following.previous:
            yield _span(change, following.previous, None, change.time_ns, following.time_ns)


def _span(change: Observation, state: str, epoch: int | None, start_ns: int, end_ns: int) -> StateSpan:
    return StateSpan(change.node, state, epoch, max(0, start_ns), max(0, end_ns))


def _merged(spans: Iterator[StateSpan]) -> Iterator[StateSpan]:
    """Merge adjacent spans of the same state and epoch, and omit empty spans."""
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
    """The changes of each node's epoch, by node and time, from observations of any source."""
    with_epoch = [each for each in observations if each.epoch is not None]
    latest: dict[int, int] = {}
    steps: list[EpochStep] = []
    for each in sorted(with_epoch, key=lambda each: (each.node, each.time_ns)):
        if each.epoch is not None and latest.get(each.node) != each.epoch:
            latest[each.node] = each.epoch
            steps.append(EpochStep(each.node, each.epoch, max(0, each.time_ns)))
    return tuple(steps)
