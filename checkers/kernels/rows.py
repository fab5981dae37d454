"""The codes that all kernels share, the pairing of invocations with completions, and grouping of rows."""

from __future__ import annotations

import numpy as np
from numba import njit

Rows = np.ndarray
"""One number for each row, or for each item that the function's docstring names."""

INVOKE, OK, FAIL, INFO = 0, 1, 2, 3
READ, WRITE, CAS = 0, 1, 2
NIL = 0
NOBODY = -1
NEVER = np.int64(1) << np.int64(60)
"""A row number after every row: an operation without a completion may still take effect."""

Place = np.int32
"""The type of row numbers and value numbers: a partition's rows take most of the memory."""

PLACES_MAX = int(np.iinfo(Place).max)

leaf = njit(cache=True, _nrt=False)  # type: ignore[call-overload]
"""Compiles a function that allocates nothing without reference counts, which cuts the searches' time to a third.

The option is private to numba. A version without it rejects it at the import of this module; njit(cache=True) is then
correct, only slower. Only compiled functions may call a leaf: a call from Python crashes the process."""


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
    """The type of the completion of the operation called at this row; INFO without one."""
    return INFO if partner[row] == NOBODY else kind[partner[row]]


@njit(cache=True)
def grouped(code: Rows, codes: int) -> tuple[Rows, Rows, Rows]:
    """Rows grouped by code, stable: (order, where each group starts, and the end, the codes that occur)."""
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
    """Each row's code as a number from 1 on by first appearance (0 for a negative code), and the numbers' codes."""
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
