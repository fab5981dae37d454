"""A first-in-first-out queue: enqueue, and dequeue that returns the oldest value, or nil where there is none.

What may live here: this model. What may not: its algorithm, which is kernels/queues.py's, and the search for what that
one is not sure of.
"""

from __future__ import annotations

import numpy as np

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys
from checkers.framework.operations import PossibleOperations, possible_operations
from checkers.kernels import queues
from checkers.kernels.queues import QueueHistory
from checkers.kernels.rows import NEVER, NIL, NOBODY, READ
from checkers.linearizability.models.model import Model, Outcome, Problem
from checkers.linearizability.plain_search import EXHAUSTED, PlainOperation, plain_search

GUARANTEE = "values leave a queue in the order in which they came"
GUARANTEES = {
    queues.NEVER_ENQUEUED: "a queue gives out what was put in: {0} returned what was never enqueued",
    queues.FUTURE_DEQUEUE: "a queue gives out what was put in: {0} ended before {1} began",
    queues.DEQUEUED_TWICE: "a queue gives out each value once: {0} and {1} returned the same",
    queues.OUT_OF_ORDER: f"{GUARANTEE}: {{0}} ended before {{1}} began, whose value was gone before the other's left",
}
FS = ("dequeue", "enqueue")
EMPTY: tuple[int, ...] = ()
STEPS_SHARE = 20
"""How many steps of a compiled search one in plain Python counts for."""


def judge(keys: Keys, settings: JudgeSettings) -> list[Outcome]:
    """Each key by the order of its values, and by search where that does not decide."""
    found = possible_operations(keys, crashed_reads=True)
    outcomes = []
    for which in range(len(keys.names)):
        history, values = queue_history(keys, found, which)
        verdict, *witness = queues.judge_queue(history, values)
        if verdict == queues.NOT_SURE:
            outcomes.append(searched(keys, history, settings.search_steps // STEPS_SHARE))
            continue
        problem = None if verdict == queues.VALID else problem_of(keys, history, verdict, witness)
        outcomes.append(Outcome("order of unique values", len(history.call), problem))
    return outcomes


def problem_of(keys: Keys, history: QueueHistory, verdict: int, witness: list[int]) -> Problem:
    """What a verdict says in words."""
    rows = [int(history.call[one]) for one in witness if one != NOBODY]
    message = GUARANTEES[verdict].format(*map(keys.describe, rows))
    return Problem("non-linearizable", "invalid", message, [*rows, *(int(keys.partner[row]) for row in rows)])


def queue_history(keys: Keys, found: PossibleOperations, which: int) -> tuple[QueueHistory, int]:
    """One key's operations, and one more than the highest value number."""
    part = slice(found.starts[which], found.starts[which + 1])
    rows, ends, back = found.rows[part], found.ends[part], found.back[part]
    enqueues = keys.f[rows] != READ
    returned = np.where(back == NEVER, NIL, keys.value[ends])
    value = np.where(enqueues, keys.value[rows], returned)
    # Numbers of this key alone, so that a batch of many keys costs no more than its rows; NIL stays 0.
    numbers, dense = np.unique(np.append(value, NIL), return_inverse=True)
    return QueueHistory(rows, back, enqueues, dense[:-1].astype(np.int64)), len(numbers)


def searched(keys: Keys, history: QueueHistory, steps_max: int) -> Outcome:
    """One key's outcome by plain search."""
    steps = [
        PlainOperation(int(call), None if back == NEVER else int(back), (bool(enqueues), int(value)))
        for call, back, enqueues, value in zip(*history, strict=True)
    ]
    order, stuck, spent = plain_search(steps, EMPTY, applied, steps_max)
    if order:
        return Outcome("plain search", len(steps))
    rows = [steps[stuck].call, int(keys.partner[steps[stuck].call])]
    told = keys.describe(rows[0])
    if spent == EXHAUSTED:
        message = f"{GUARANTEE}: no order of the operations explains {told} (plain search)"
        return Outcome("plain search", len(steps), Problem("non-linearizable", "invalid", message, rows))
    message = f"linearizability is not decided: {spent} steps were spent, and none got past {told}"
    return Outcome("plain search", len(steps), Problem("undecided", "unknown", message, rows))


def applied(step: PlainOperation, held: tuple[int, ...]) -> tuple[int, ...] | None:
    """What the queue holds after the operation, None if it cannot happen; a crashed dequeue takes what there is."""
    enqueues, value = step.asked
    if enqueues:
        return (*held, value)
    if step.back is None:
        return held[1:]
    if value == NIL:
        return None if held else held
    return held[1:] if held and held[0] == value else None


QUEUE = Model("fifo-queue", FS, judge, takes_initial=False)
