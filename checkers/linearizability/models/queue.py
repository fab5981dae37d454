"""A FIFO queue: enqueue, and dequeue that returns the oldest value, or nil if there is none.

Checked by kernels/queues.py, and by plain search where that is not sure.
"""

from __future__ import annotations

import numpy as np

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys
from checkers.framework.operations import PossibleOperations, possible_operations
from checkers.kernels import queues
from checkers.kernels.queues import QueueHistory
from checkers.kernels.rows import NEVER, NIL, NOBODY, READ
from checkers.linearizability import signatures
from checkers.linearizability.models.model import Model, Outcome, Problem
from checkers.linearizability.plain_search import EXHAUSTED, PlainOperation, plain_search

GUARANTEE = "a queue returns values in the order in which they were enqueued"
GUARANTEES = {
    queues.NEVER_ENQUEUED: "a queue returns what was enqueued: {0} returned a value that was never enqueued",
    queues.FUTURE_DEQUEUE: "a queue returns what was enqueued: {0} ended before {1} began",
    queues.DEQUEUED_TWICE: "a queue returns each value once: {0} and {1} returned the same",
    queues.OUT_OF_ORDER: f"{GUARANTEE}: {{0}} ended before {{1}} began, whose value was dequeued before the other's",
}
FS = signatures.QUEUE.fs
EMPTY: tuple[int, ...] = ()
STEPS_RATIO = 20
"""How many steps of a compiled search one in plain Python counts for."""


def judge(keys: Keys, settings: JudgeSettings) -> list[Outcome]:
    """Check each key by the order of its values, and by search if that does not decide."""
    found = possible_operations(keys, crashed_reads=True)
    outcomes = []
    for which in range(len(keys.names)):
        history, values = queue_history(keys, found, which)
        verdict, *witness = queues.judge_queue(history, values)
        if verdict == queues.NOT_SURE:
            outcomes.append(searched(keys, history, settings.search_steps // STEPS_RATIO))
            continue
        problem = None if verdict == queues.VALID else problem_of(keys, history, verdict, witness)
        outcomes.append(Outcome("order of unique values", len(history.call), problem))
    return outcomes


def problem_of(keys: Keys, history: QueueHistory, verdict: int, witness: list[int]) -> Problem:
    """The problem that a verdict stands for."""
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
    # Dense numbers within this key: the cost of a batch of many keys stays linear in its rows. NIL stays 0.
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
    described = keys.describe(rows[0])
    if spent == EXHAUSTED:
        message = f"{GUARANTEE}: no order of the operations explains {described} (plain search)"
        return Outcome("plain search", len(steps), Problem("non-linearizable", "invalid", message, rows))
    message = f"linearizability is not decided: {spent} steps were spent, and none got past {described}"
    return Outcome("plain search", len(steps), Problem("undecided", "unknown", message, rows))


def applied(step: PlainOperation, held: tuple[int, ...]) -> tuple[int, ...] | None:
    """The queue after the operation, None if the operation does not fit; a crashed dequeue takes the first value."""
    enqueues, value = step.argument
    if enqueues:
        return (*held, value)
    if step.back is None:
        return held[1:]
    if value == NIL:
        return None if held else held
    return held[1:] if held and held[0] == value else None


QUEUE = Model(signatures.QUEUE, judge)
