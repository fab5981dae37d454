"""The codes that every kernel shares, and the pairing of each invocation with its completion.

What may live here: what is true of rows before anything is asked of them. What may not: a judgement.
"""

from __future__ import annotations

import numpy as np
from numba import njit

Rows = np.ndarray
"""One number for each row, or for each of what the function's docstring says."""

INVOKE, OK, FAIL, INFO = 0, 1, 2, 3
READ, WRITE, CAS = 0, 1, 2
NIL = 0
NOBODY = -1
NEVER = np.int64(1) << np.int64(60)
"""A row number after every row: when an operation that nobody saw end may yet take effect."""

Place = np.int32
"""What a row's number takes, and a value's: the rows of one partition are what memory is short of."""

PLACES_MAX = int(np.iinfo(Place).max)

leaf = njit(cache=True, _nrt=False)  # type: ignore[call-overload]
"""For a function that allocates nothing: numba then counts no references, and the searches take a third of the time.

The option is private to numba: a version without it refuses it as this module is imported, and njit(cache=True) is then
as right, only slower. Only compiled functions may call a leaf: Python's own calls count on what is left out here, and
end in a broken process."""


@njit(cache=True)
def partners(kind: Rows, process: Rows, starts: Rows, processes: int) -> Rows:
    """For each row, the row of the operation's other end. A process has at most one operation open on a key, and key i
    the rows starts[i] to starts[i + 1]."""
    open_at = np.full(processes, NOBODY, np.int64)
    partner = np.full(kind.shape[0], NOBODY, Place)
    for key in range(starts.shape[0] - 1):
        for row in range(starts[key], starts[key + 1]):
            who = process[row]
            if kind[row] == INVOKE:
                open_at[who] = row
                continue
            if open_at[who] >= starts[key]:
                partner[row] = open_at[who]
                partner[open_at[who]] = row
            open_at[who] = NOBODY
    return partner


@njit(inline="always")
def outcome(kind: Rows, partner: Rows, row: int) -> int:
    """How the operation invoked at this row ended; one without an end is INFO."""
    return INFO if partner[row] == NOBODY else kind[partner[row]]


@njit(cache=True)
def grouped(code: Rows, codes: int) -> tuple[Rows, Rows, Rows]:
    """Rows with equal codes together, each group in its order: (order, where each group starts and the end, codes)."""
    ends = np.zeros(codes + 1, np.int64)
    for row in range(code.shape[0]):
        ends[code[row] + 1] += 1
    present = np.flatnonzero(ends[1:])
    ends = np.cumsum(ends)
    starts = np.append(ends[present], code.shape[0])
    order = np.empty(code.shape[0], Place)
    for row in range(code.shape[0]):
        order[ends[code[row]]] = row
        ends[code[row]] += 1
    return order, starts, present


@njit(cache=True)
def first_appearances(code: Rows, codes: int) -> tuple[Rows, Rows]:
    """Each row's code as a number from 1 on in order of first appearance (0 for a negative one), and their codes."""
    number = np.zeros(codes, Place)
    numbers = np.zeros(code.shape[0], Place)
    seen = 0
    for row in range(code.shape[0]):
        if code[row] >= 0:
            if number[code[row]] == 0:
                seen += 1
                number[code[row]] = seen
            numbers[row] = number[code[row]]
    distinct = np.empty(seen, np.int64)
    for each in range(codes):
        if number[each]:
            distinct[number[each] - 1] = each
    return numbers, distinct
