"""A search in plain Python for models whose state is not a number: depth-first with memory, within a budget.

It is slow compared with the compiled searches, and meant for the few keys that their own algorithm cannot decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

State = tuple[int, ...]
"""A model's state, e.g. a queue's values."""

EXHAUSTED = -1
"""Returned instead of the steps spent: every order was tried."""

MEMBERS_A_STEP = 16
"""How many members of a state, or skipped steps, cost as much as one step."""


class PlainOperation(NamedTuple):
    """An operation: its call, its return (None if it crashed), and its argument to the model."""

    call: int
    back: int | None
    argument: Any


class Place(NamedTuple):
    """The progress of an order: every step before `low` is placed, and so are the later ones in the mask `later`; every
    return before `at` is placed; and the state."""

    low: int
    later: int
    at: int
    held: State


def plain_search(
    steps: Sequence[PlainOperation],
    initial: State,
    applied: Callable[[PlainOperation, State], State | None],
    steps_max: int,
) -> tuple[bool, int, int]:
    """Whether some order of the steps, given in order of invocation, explains the model.

    applied gives the state after a step, None if the step does not fit. Returns whether an order was found, the
    step that no order got past, and the steps spent, EXHAUSTED if every order was tried.
    """
    returned = [at for at, step in enumerate(steps) if step.back is not None]
    queue = sorted(returned, key=lambda at: steps[at].back or 0)
    stack = [Place(0, 0, 0, initial)]
    seen: set[Place] = set()
    spent, furthest = 0, 0
    while stack:
        place = advanced(stack.pop(), queue)
        furthest = max(furthest, place.at)
        if place.at == len(queue):
            return True, -1, spent
        if place in seen:
            continue
        seen.add(place)
        spent += 1 + (len(place.held) + place.later.bit_length()) // MEMBERS_A_STEP
        end = steps[queue[place.at]].back or 0
        following = list(followers(place, steps, end, applied))
        spent += len(following)
        stack += reversed(following)
        if spent > steps_max:
            return False, queue[furthest], spent
    return False, queue[furthest], EXHAUSTED


def advanced(place: Place, queue: Sequence[int]) -> Place:
    """The progress after skipping placed returns and placed steps."""
    low, later, at, held = place
    while at < len(queue) and (queue[at] < low or later >> (queue[at] - low) & 1):
        at += 1
    while later & 1:
        low, later = low + 1, later >> 1
    return Place(low, later, at, held)


def followers(
    place: Place, steps: Sequence[PlainOperation], end: int, applied: Callable[[PlainOperation, State], State | None]
) -> Iterator[Place]:
    """The progress after each step called before the next return."""
    for one in range(place.low, len(steps)):
        if steps[one].call >= end:
            return
        if place.later >> (one - place.low) & 1:
            continue
        after = applied(steps[one], place.held)
        if after is not None and not (steps[one].back is None and after == place.held):
            yield Place(place.low, place.later | 1 << (one - place.low), place.at, after)
