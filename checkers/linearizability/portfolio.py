"""The searches as a portfolio: depth-first within a small budget, then breadth-first, within one budget in all.

Depth-first quickly finds an order that exists; breadth-first quickly proves that none exists, and handles many crashed
operations. They agree on what they decide, so the second spends only what the first left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checkers.framework.keyed import Keys
from checkers.kernels.layers import search_in_layers
from checkers.kernels.orders import order_before
from checkers.kernels.rows import NIL, Rows
from checkers.kernels.search import UNDECIDED, search
from checkers.kernels.steps import NO_TEXTS, READ_OF, REFUSED_SWAP, SWAP, WRITE_OF, Operations, Texts
from checkers.linearizability.models.model import Outcome, Problem
from harness.model.records.evidence import Need, Order

STEPS_AN_OPERATION = 25
"""Depth-first steps per operation: an order that exists is usually found within a few."""

MEMORY_BYTES = 512 << 20
"""The memory of a search."""

ORDER_STEPS = 1_000_000
"""The steps to reconstruct the longest order for the finding."""

ORDER_MAX, NEEDS_MAX = 40, 12
"""How much of an order, and how many of the operations open at its end, a finding contains."""

StateName = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of the searches: see checkers/kernels/search.py."""

    verdict: int
    algorithm: str
    steps: int
    placed: int
    stuck: int
    states: Rows


def decide(operations: Operations, texts: Texts, initial: int, steps_max: int) -> Decision:
    """Check one key's operations with at most steps_max steps."""
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
    state_name: StateName | None = None,
    texts: Texts = NO_TEXTS,
    initial: int = NIL,
) -> Outcome:
    """One key's outcome by search; state_name, if given, names the model's states."""
    decision = decide(operations, texts, initial, steps_max)
    total = len(operations.call)
    if not decision.verdict:
        return Outcome(decision.algorithm, total)
    call, back = operations.call[decision.stuck], operations.back[decision.stuck]
    described = keys.describe(call)
    length = f"{decision.placed} of the operations that returned"
    if decision.verdict == UNDECIDED:
        message = (
            f"linearizability is not decided: {decision.steps} steps were spent, depth first and then breadth first, "
            f"and none got past {described}; the longest order has {length}"
        )
        return Outcome(decision.algorithm, total, Problem("undecided", "unknown", message, (call, back)))
    message = f"{guarantee}: no order of the operations explains {described}; the longest order before it has {length}"
    states = () if state_name is None else tuple(sorted({state_name(state) for state in decision.states.tolist()}))
    if states:
        message += f", after which the state is {' or '.join(states)}"
    message += f" ({decision.algorithm})"
    order, held = order_before(operations, texts, initial, decision.stuck, ORDER_STEPS, MEMORY_BYTES)
    leaves = state_name(held) if state_name is not None and len(order) else None
    evidence = evidence_of(keys, operations, order, decision.stuck, leaves, state_name)
    return Outcome(decision.algorithm, total, Problem("non-linearizable", "invalid", message, (call, back), evidence))


def evidence_of(
    keys: Keys, operations: Operations, order: Rows, stuck: int, leaves: str | None, state_name: StateName | None
) -> Order:
    """The longest order for a picture, and what each operation open at its end requires."""
    is_open = operations.call < operations.back[stuck]
    is_open[order] = False
    # Without an order it is not known which operations were open with it.
    listed = [stuck, *(int(one) for one in np.flatnonzero(is_open) if len(order) and one != stuck)]
    needs = tuple(Need(index_of(keys, operations, one), need(keys, operations, one, state_name)) for one in listed)
    shown = tuple(index_of(keys, operations, int(one)) for one in order[-ORDER_MAX:])
    return Order(shown, len(order) - len(shown), needs[0].operation, needs[:NEEDS_MAX], leaves)


def index_of(keys: Keys, operations: Operations, one: int) -> int:
    """The history index of an operation's invocation."""
    return int(keys.index[operations.call[one]])


def need(keys: Keys, operations: Operations, one: int, state_name: StateName | None) -> str:
    """What an operation requires of the state, or leaves."""
    code, a, b = int(operations.code[one]), int(operations.a[one]), int(operations.b[one])
    argument = keys.shown(int(keys.value[operations.call[one]]))
    if code == READ_OF:
        return f"needs {state_name(a) if state_name else keys.shown(int(keys.value[operations.back[one]]))}"
    if code in (SWAP, REFUSED_SWAP):
        assert state_name is not None, "a model with compare-and-sets names its states"
        return f"needs {state_name(a)}, leaves {state_name(b)}" if code == SWAP else f"needs other than {state_name(a)}"
    return f"leaves {argument}" if code == WRITE_OF else f"appends {argument}"
