"""The steps of a quorum reassignment: which single change of the voters comes next.

    next_step(Assignment((1, 2, 3), (4, 5, 6)), leader=1, caught_up={4})       # Assignment((1, 2, 3, 4), (4, 5, 6))
    next_step(Assignment((1, 4, 5, 6), (4, 5, 6)), leader=1, caught_up=set())  # STEP_DOWN

Contains the algorithm as a pure function. When a step may be taken, and how it is written, is in roles.reassigning.
Source: KIP-642, "Reassignment Algorithm", steps 2, 3 and 6.
"""

from __future__ import annotations

from collections.abc import Set
from enum import Enum
from typing import Final, Literal

from nodes.reference.core.events import Assignment


class _StepDown(Enum):
    STEP_DOWN = "the leader steps down, so that another one removes it"


STEP_DOWN: Final = _StepDown.STEP_DOWN
"""The leader is the last voter to be removed, or no longer votes: it sends EndQuorumEpoch."""

Step = Assignment | Literal[_StepDown.STEP_DOWN] | None


def next_step(assignment: Assignment, leader: int, caught_up: Set[int], in_order: bool = False) -> Step:
    """What the leader does next; None if nothing is left to do, or if it has to wait for a new voter to catch up.

    caught_up are the observers that are close enough to the end of the log to vote. The one with the lowest id of them
    is added; in_order waits for the one with the lowest id of all. The voter with the highest id is removed first, as
    in the KIP's example, and the leader last.
    """
    current, target = set(assignment.current), assignment.target
    if leader not in current:
        return STEP_DOWN
    if target is None:
        return None
    removing, new = current - set(target), set(target) - current
    if not removing and not new:
        return Assignment(assignment.current)
    if new and len(new) >= len(removing):
        candidates = [min(new)] if in_order else sorted(new)
        added = next((node for node in candidates if node in caught_up), None)
        return None if added is None else Assignment(tuple(sorted(current | {added})), target)
    if removing == {leader}:
        return STEP_DOWN
    return Assignment(tuple(sorted(current - {max(removing - {leader})})), target)
