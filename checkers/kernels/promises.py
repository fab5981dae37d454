"""The guarantees of a register whose reads any node may answer from its own, possibly old, image.

Written values are unique. W(v) has certainly happened at its acknowledgement or at the first completed read of v,
whichever comes first: known(v). So W(v) certainly precedes W(w) if known(v) precedes the call of W(w). Then

    phantom        a read returns a value whose write had not begun, or failed
    backwards      a node's read returns w, a read called on that node later returns v, and W(v) precedes W(w)
    stale          a read returns v, and some W(w) after W(v) was acknowledged before the read was called
    lost           the same for a final read, after all faults were healed

Stale reads are counted and are no violation. Contains this one pass over a key. Strict linearizability is zones.py's.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from checkers.kernels.rows import CAS, FAIL, INVOKE, NEVER, NIL, NOBODY, OK, READ, WRITE, Rows, outcome

PHANTOM, BACKWARDS, LOST, NOT_UNIQUE = 0, 1, 2, 3
BREACHES = 4
WITNESSES = 3


@njit(cache=True)
def judge_promises(
    starts: Rows, kind: Rows, f: Rows, value: Rows, partner: Rows, node: Rows, time_ns: Rows, final: Rows,
    values: int, nodes: int,
) -> tuple[Rows, Rows]:  # fmt: skip
    """Check each key, rows starts[i] to starts[i + 1]; final marks the rows of final reads.

    Returns the witness rows of the first violation of each kind for each key (key, kind, witness; NOBODY for none),
    and for each key the number of stale reads and the greatest staleness in ns.
    """
    keys = starts.shape[0] - 1
    witnesses = np.full((keys, BREACHES, WITNESSES), NOBODY, np.int64)
    stale = np.zeros((keys, 2), np.int64)
    called = np.full(values, NEVER, np.int64)
    known = np.full(values, NEVER, np.int64)
    for key in range(keys):
        first, last = starts[key], starts[key + 1]
        if learn(first, last, kind, f, value, partner, called, known, witnesses[key]):
            writes, acknowledged = earliest_acknowledgements(first, last, kind, f, partner)
            read_all(
                first, last, kind, f, value, partner, node, time_ns, final, called, known, writes, acknowledged,
                nodes, witnesses[key], stale[key],
            )  # fmt: skip
        called[NIL], known[NIL] = NEVER, NEVER
        for row in range(first, last):
            called[value[row]], known[value[row]] = NEVER, NEVER
    return witnesses, stale


@njit(cache=True)
def learn(
    first: int, last: int, kind: Rows, f: Rows, value: Rows, partner: Rows, called: Rows, known: Rows, witness: Rows
) -> bool:
    """Fill in when each value's write was called and known; False if a value was written twice."""
    called[NIL], known[NIL] = NOBODY, NOBODY
    for row in range(first, last):
        if f[row] == CAS:
            witness[NOT_UNIQUE, 0] = row
            return False
        if kind[row] == INVOKE and f[row] == WRITE and outcome(kind, partner, row) != FAIL:
            if called[value[row]] != NEVER:
                witness[NOT_UNIQUE, 0] = row
                return False
            called[value[row]] = row
        elif kind[row] == OK and partner[row] != NOBODY:
            written = value[partner[row]] if f[row] == WRITE else value[row]
            known[written] = min(known[written], row)
    return True


@njit(cache=True)
def earliest_acknowledgements(first: int, last: int, kind: Rows, f: Rows, partner: Rows) -> tuple[Rows, Rows]:
    """The acknowledged writes in order of invocation, and for each the earliest acknowledgement from it on."""
    writes = np.empty(last - first, np.int64)
    count = 0
    for row in range(first, last):
        if kind[row] == INVOKE and f[row] == WRITE and outcome(kind, partner, row) == OK:
            writes[count] = row
            count += 1
    acknowledged = np.full(count + 1, NEVER, np.int64)
    for index in range(count - 1, -1, -1):
        acknowledged[index] = min(acknowledged[index + 1], partner[writes[index]])
    return writes[:count], acknowledged


@njit(cache=True)
def read_all(
    first: int, last: int, kind: Rows, f: Rows, value: Rows, partner: Rows, node: Rows, time_ns: Rows, final: Rows,
    called: Rows, known: Rows, writes: Rows, acknowledged: Rows, nodes: int, witness: Rows, stale: Rows,
) -> None:  # fmt: skip
    """Compare each completed read with the known writes; fills witness and stale."""
    newest = np.full(nodes, NOBODY, np.int64)
    shown_by = np.full(nodes, NOBODY, np.int64)
    bar = np.full((last - first, 2), NOBODY, np.int64)
    for row in range(first, last):
        if f[row] != READ:
            continue
        if kind[row] == INVOKE:
            bar[row - first] = (newest[node[row]], shown_by[node[row]])
            continue
        start = partner[row]
        if kind[row] != OK or start == NOBODY:
            continue
        held = value[row]
        if called[held] > row:
            note_first(witness[PHANTOM], row, NOBODY, NOBODY)
            continue
        if known[held] < bar[start - first, 0]:
            note_first(witness[BACKWARDS], bar[start - first, 1], bar[start - first, 0], row)
        if called[held] > newest[node[row]]:
            newest[node[row]], shown_by[node[row]] = called[held], row
        newer = acknowledged[np.searchsorted(writes, known[held], side="right")]
        if newer < start:
            stale[0] += 1
            stale[1] = max(stale[1], time_ns[start] - time_ns[newer])
            if final[start]:
                note_first(witness[LOST], newer, row, NOBODY)


@njit(cache=True)
def note_first(witness: Rows, one: int, two: int, three: int) -> None:
    """Record the first violation of a kind."""
    if witness[0] == NOBODY:
        witness[0], witness[1], witness[2] = one, two, three
