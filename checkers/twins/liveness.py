"""Plain twins of the liveness check: what is in place is computed anew for each moment, from all that came before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from harness.model import Op


class ProcessEvent(Protocol):
    """From when a node takes part in the quorum, or does not."""

    @property
    def time_ns(self) -> int: ...
    @property
    def node(self) -> int: ...
    @property
    def takes_part(self) -> bool: ...


class Span(Protocol):
    """A calm time."""

    @property
    def begin_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...


MOMENTARY = ("lead",)
"""Of the operations that the tests draw, those without a lasting effect."""


def calm_moments(
    operations: Sequence[Op], processes: Sequence[ProcessEvent], voters: Sequence[int], end_ns: int
) -> list[tuple[int, int, tuple[int, ...]]]:
    """(begin, end, the voters that run) of each calm time between two events."""
    times = sorted({0, end_ns, *(op.time_ns for op in operations), *(event.time_ns for event in processes)})
    found = []
    for begin, end in pairwise(times):
        before = [op for op in operations if op.time_ns <= begin]
        running = running_at(begin, processes, voters) - paused_by(before)
        is_calm = len(before) % 2 == 0 and not faults_of(before)
        if is_calm and 2 * len(running) > len(voters):
            found.append((begin, end, tuple(sorted(running))))
    return found


def running_at(time_ns: int, processes: Sequence[ProcessEvent], voters: Sequence[int]) -> set[int]:
    """The voters that take part since their last event."""
    last = {event.node: event.takes_part for event in processes if event.time_ns <= time_ns}
    return {voter for voter in voters if last.get(voter)}


def since_heal(operations: Sequence[Op]) -> list[Op]:
    """The completions after the last heal."""
    completions = list(operations)[1::2]
    heals = [number for number, op in enumerate(completions) if op.f == "heal"]
    return completions[heals[-1] + 1 :] if heals else completions


def paused_by(operations: Sequence[Op]) -> set[int]:
    """The nodes that are paused after these operations."""
    paused: set[int] = set()
    for op in since_heal(operations):
        if op.f == "pause":
            paused |= set(op.value["nodes"])
        if op.f == "resume":
            paused -= set(op.value["nodes"])
    return paused


def faults_of(operations: Sequence[Op]) -> list[str]:
    """The faults in place after these operations, but for dead and paused processes."""
    of_processes = ("kill", "stop", "start", "pause", "resume")
    since = since_heal(operations)
    last = {link: op.f for op in since if op.f in ("cut", "heal_links") for link in map(tuple, op.value["links"])}
    unknown = [op.f for op in since if op.f == "cut" and not op.value["links"]]
    others = unknown + [op.f for op in since if op.f not in (*of_processes, *MOMENTARY, "cut", "heal_links")]
    return others + [f for f in last.values() if f == "cut"]


def gaps(signs: Sequence[int], spans: Sequence[Span], limit_ns: int) -> list[tuple[int, int]]:
    """The times in the spans that are longer than the limit and have no sign."""
    found = []
    for span in spans:
        inside = [time for time in sorted(signs) if span.begin_ns <= time <= span.end_ns]
        found += [pair for pair in pairwise([span.begin_ns, *inside, span.end_ns]) if pair[1] - pair[0] > limit_ns]
    return sorted(found)
