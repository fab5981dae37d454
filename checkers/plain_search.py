"""The search for models whose state is no number, in plain Python: depth first with memory, within a budget.

It is slow beside the compiled searches, and meant for the few keys whose own algorithm cannot decide.

What may live here: this search. What may not: a model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

State = TypeVar("State", bound=Hashable)

EXHAUSTED = -1
"""In place of the steps spent: every order was tried."""


class Step(NamedTuple):
    """An operation: when it was invoked, when it returned (None if it crashed), and what it asked of the model."""

    call: int
    back: int | None
    asked: Any


def plain_search(
    steps: Sequence[Step], initial: State, applied: Callable[[Step, State], State | None], steps_max: int
) -> tuple[bool, int, int]:
    """Whether some order of the steps, given in order of invocation, explains the model.

    applied gives the state after a step, None where the step does not fit. Returns whether an order was found, the
    step that no order got past, and the steps spent, EXHAUSTED if nothing is left to try.
    """
    returning = sorted(
        (at for at, step in enumerate(steps) if step.back is not None), key=lambda at: steps[at].back or 0
    )
    stack: list[tuple[int, int, State]] = [(0, 0, initial)]
    seen: set[tuple[int, State]] = set()
    spent, furthest = 0, 0
    while stack:
        placed, at, held = stack.pop()
        while at < len(returning) and placed >> returning[at] & 1:
            at += 1
        furthest = max(furthest, at)
        if at == len(returning):
            return True, -1, spent
        if (placed, held) in seen:
            continue
        seen.add((placed, held))
        end = steps[returning[at]].back or 0
        for one, step in reversed(list(enumerate(steps))):
            if step.call >= end or placed >> one & 1:
                continue
            spent += 1
            after = applied(step, held)
            if after is not None and not (step.back is None and after == held):
                stack.append((placed | 1 << one, at, after))
        if spent > steps_max:
            return False, returning[furthest], spent
    return False, returning[furthest], EXHAUSTED
