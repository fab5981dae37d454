"""The search as a portfolio: depth first for as long as that is cheap, then breadth first, within one budget.

Depth first finds an order quickly where there is one; breadth first shows quickly that there is none, and bears many
crashed operations. Both agree on what they decide, so the second only spends what the first left.

What may live here: which search, with how much. What may not: the searches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checkers.kernels.layers import search_in_layers
from checkers.kernels.rows import NIL, Rows
from checkers.kernels.search import UNDECIDED, search
from checkers.kernels.steps import NO_TEXTS, Operations, Texts
from checkers.keyed import Keys
from checkers.models.model import Outcome, Problem

STEPS_AN_OPERATION = 25
"""What depth first may spend on each operation: an order that exists is mostly found within a few."""

MEMORY_BYTES = 512 << 20
"""What a search may remember."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the searches said: see checkers/kernels/search.py."""

    verdict: int
    algorithm: str
    steps: int
    placed: int
    stuck: int
    states: Rows


def decide(operations: Operations, texts: Texts, initial: int, steps_max: int) -> Decision:
    """Judge one key's operations with at most so many steps."""
    first = min(STEPS_AN_OPERATION * len(operations.call), steps_max)
    verdict, steps, placed, stuck, states = search(operations, texts, initial, first, MEMORY_BYTES)
    if verdict != UNDECIDED or steps >= steps_max:
        return Decision(verdict, "depth-first search", steps, placed, stuck, states)
    found = search_in_layers(operations, texts, initial, steps_max - steps, MEMORY_BYTES)
    verdict, more, placed, stuck, states = found
    return Decision(verdict, "breadth-first search", steps + more, placed, stuck, states)


def searched(
    keys: Keys,
    operations: Operations,
    guarantee: str,
    steps_max: int,
    state_name: Callable[[int], str] | None = None,
    texts: Texts = NO_TEXTS,
    initial: int = NIL,
) -> Outcome:
    """One key's outcome by search; state_name tells what the model holds, where that can be told."""
    decision = decide(operations, texts, initial, steps_max)
    total = len(operations.call)
    if not decision.verdict:
        return Outcome(decision.algorithm, total)
    call, back = operations.call[decision.stuck], operations.back[decision.stuck]
    told = keys.describe(call)
    way = f"{decision.placed} of the operations that returned"
    if decision.verdict == UNDECIDED:
        message = (
            f"linearizability is not decided: {decision.steps} steps were spent, depth first and then breadth first, "
            f"and none got past {told}, the longest order having {way}"
        )
        return Outcome(decision.algorithm, total, Problem("undecided", "unknown", message, (call, back)))
    message = f"{guarantee}: no order of the operations explains {told}; the longest order before it has {way}"
    if state_name is not None:
        names = sorted({state_name(state) for state in decision.states.tolist()})
        message += f", after which the state is {' or '.join(names)}"
    message += f" ({decision.algorithm})"
    return Outcome(decision.algorithm, total, Problem("non-linearizable", "invalid", message, (call, back)))
