"""A counter: add, increment and decrement change it, and read returns its value, within bounds.

A change that returned before a read was called is included in it; one that was called before the read returned may be.
So a read lies between the sum of the former plus every possible decrease and the same plus every possible increase. The
bounds are sound, not exact: a read between them may be a sum that no choice of changes yields.

    counter-out-of-bounds    a read below its minimum or above its maximum

increment and decrement without a value change it by one.
"""

from __future__ import annotations

import json

import numpy as np

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys
from checkers.framework.operations import possible_operations
from checkers.kernels.rows import NIL, READ, Rows
from checkers.linearizability import signatures
from checkers.linearizability.models.model import Model, Outcome, Problem
from harness.model import BadInput

FS = signatures.COUNTER.fs
DECREMENT = FS.index("decrement")


def judge(keys: Keys, settings: JudgeSettings) -> list[Outcome]:  # noqa: ARG001 - keys.texts has the initial value
    """Check each key's reads against their bounds."""
    found = possible_operations(keys)
    numbers, known = numbers_of(keys)
    outcomes = []
    for which in range(len(keys.names)):
        part = slice(found.starts[which], found.starts[which + 1])
        rows, ends, back = found.rows[part], found.ends[part], found.back[part]
        outcomes.append(Outcome("bounds of sums", len(rows), judge_key(keys, rows, ends, back, numbers, known)))
    return outcomes


def numbers_of(keys: Keys) -> tuple[Rows, np.ndarray]:
    """Each value's JSON as a whole number, and whether it is one; the initial value is 0 if nil."""
    values = [json.loads("0" if text == "nil" else text) for text in keys.texts]
    known = np.array([isinstance(value, int) and not isinstance(value, bool) for value in values])
    return np.array([value if is_known else 0 for value, is_known in zip(values, known, strict=True)], np.int64), known


def judge_key(keys: Keys, rows: Rows, ends: Rows, back: Rows, numbers: Rows, known: np.ndarray) -> Problem | None:
    """Check one key's reads. Raises BadInput for a value that is not a whole number."""
    is_read = keys.f[rows] == READ
    at = np.where(is_read, ends, rows)
    require_whole_numbers(keys, at[~known[keys.value[at]]])
    change = changes(keys, rows[~is_read], numbers)
    # A read of nil returned nothing to check.
    reads = np.flatnonzero(is_read & (keys.value[at] != NIL))
    least, most = bounds(change, rows[~is_read], back[~is_read], rows[reads], ends[reads])
    held = numbers[keys.value[ends[reads]]]
    least, most = numbers[NIL] + least, numbers[NIL] + most
    wrong = np.flatnonzero((held < least) | (held > most))
    if not len(wrong):
        return None
    first = int(wrong[0])
    row = int(rows[reads[first]])
    others = f", and {len(wrong) - 1} more reads are out of bounds" if len(wrong) > 1 else ""
    message = (
        f"a counter is the sum of its changes: {keys.describe(row)} is not between {least[first]} and {most[first]}"
        f"{others}"
    )
    return Problem("counter-out-of-bounds", "invalid", message, [row, int(keys.partner[row])])


def require_whole_numbers(keys: Keys, rows: Rows) -> None:
    """Raise BadInput for the first of these rows, whose values are not whole numbers."""
    if len(rows):
        row = int(rows[0])
        place, found = f"history index {keys.index[row]}", keys.shown(int(keys.value[row]))
        raise BadInput(f"{place}: expected a counter's value to be a whole number, found {found}")


def changes(keys: Keys, rows: Rows, numbers: Rows) -> Rows:
    """The amount of each change."""
    value, f = keys.value[rows], keys.f[rows]
    default = np.where(f == FS.index("add"), 0, 1)
    size = np.where(value == NIL, default, numbers[value])
    return np.where(f == DECREMENT, -size, size)


def bounds(change: Rows, call: Rows, back: Rows, read_call: Rows, read_end: Rows) -> tuple[Rows, Rows]:
    """The minimum and the maximum of each read."""
    down, up = np.minimum(change, 0), np.maximum(change, 0)
    least = total(down, call, read_end) + total(up, back, read_call)
    most = total(up, call, read_end) + total(down, back, read_call)
    return least, most


def total(change: Rows, at: Rows, before: Rows) -> Rows:
    """For each row in before, the sum of the changes at earlier rows."""
    order = np.argsort(at, kind="stable")
    sums = np.append(0, np.cumsum(change[order]))
    return sums[np.searchsorted(at[order], before)]


COUNTER = Model(signatures.COUNTER, judge)
