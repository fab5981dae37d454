"""Linearizability of a FIFO queue whose values are enqueued once each, in the time of one sort
(Henzinger, Sezgin and Vafeiadis, 2013).

An order exists if and only if no value is dequeued that was never enqueued, or twice, or before its enqueue began; and
there are no x and y such that the enqueue of x returned before that of y began, and the dequeue of y returned before
that of x began (or x was never dequeued).

A crashed enqueue counts only if its value was dequeued. A crashed dequeue may have taken any value that no other
dequeue returned: if only such a value breaks the order, the verdict is NOT_SURE. So it is if a dequeue found the queue
empty, or a value was enqueued twice; those cases need a search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from checkers.kernels.rows import NEVER, NIL, NOBODY, Rows

VALID, NEVER_ENQUEUED, DEQUEUED_TWICE, FUTURE_DEQUEUE, OUT_OF_ORDER, NOT_SURE = 0, 1, 2, 3, 4, 5


class QueueHistory(NamedTuple):
    """One key's operations in order of invocation: call, back (NEVER if it crashed), whether it enqueues, and the
    value, NIL for a dequeue that found the queue empty or crashed."""

    call: Rows
    back: Rows
    enqueues: Rows
    value: Rows


@njit(cache=True)
def judge_queue(history: QueueHistory, values: int) -> tuple[int, int, int]:
    """Check one key; returns a verdict and up to two operations that witness it."""
    call, back, enqueues, value = history.call, history.back, history.enqueues, history.value
    enqueue, dequeue = np.full(values, NOBODY, np.int64), np.full(values, NOBODY, np.int64)
    crashed, not_sure = False, False
    for one in range(call.shape[0]):
        if not enqueues[one]:
            crashed |= back[one] == NEVER
            not_sure |= value[one] == NIL and back[one] != NEVER
            continue
        not_sure |= enqueue[value[one]] != NOBODY
        if enqueue[value[one]] == NOBODY:
            enqueue[value[one]] = one
    for one in range(call.shape[0]):
        if enqueues[one] or value[one] == NIL:
            continue
        if enqueue[value[one]] == NOBODY:
            return NEVER_ENQUEUED, one, NOBODY
        if back[one] < call[enqueue[value[one]]]:
            return FUTURE_DEQUEUE, one, enqueue[value[one]]
        if dequeue[value[one]] != NOBODY and not not_sure:
            return DEQUEUED_TWICE, dequeue[value[one]], one
        dequeue[value[one]] = one
    if not_sure:
        return NOT_SURE, NOBODY, NOBODY
    return in_order(history, dequeue, crashed)


@njit(cache=True)
def in_order(history: QueueHistory, dequeue: Rows, crashed: bool) -> tuple[int, int, int]:
    """The first enqueue of a value that overtook another, and the other's enqueue."""
    call, back, enqueues, value = history.call, history.back, history.enqueues, history.value
    returns = np.argsort(back)
    latest, following, verdict = NOBODY, 0, VALID
    never_dequeued = NOBODY
    for one in range(call.shape[0]):
        while following < returns.shape[0] and back[returns[following]] < call[one]:
            other = returns[following]
            following += 1
            if not enqueues[other]:
                continue
            dequeuer = dequeue[value[other]]
            if dequeuer == NOBODY:
                never_dequeued = other
            elif latest == NOBODY or call[dequeuer] > call[dequeue[value[latest]]]:
                latest = other
        dequeuer = dequeue[value[one]] if enqueues[one] else NOBODY
        if dequeuer == NOBODY:
            continue
        if latest != NOBODY and call[dequeue[value[latest]]] > back[dequeuer]:
            return OUT_OF_ORDER, latest, one
        if never_dequeued != NOBODY and not crashed:
            return OUT_OF_ORDER, never_dequeued, one
        if never_dequeued != NOBODY:
            verdict = NOT_SURE
    return verdict, NOBODY, NOBODY
