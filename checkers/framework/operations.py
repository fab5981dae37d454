"""Turns the rows of whole keys into the operations that kernels check: call, return and value of each.

Failed operations are left out, and so are crashed operations that only return something: they constrain nothing.

Contains this translation, and that of compare-and-set pairs. It gives no verdict.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from checkers.framework.encoding import REFUSED
from checkers.framework.keyed import Keys
from checkers.kernels.rows import CAS, FAIL, INFO, INVOKE, NEVER, NIL, NOBODY, READ, WRITE, Rows
from checkers.kernels.steps import READ_OF, REFUSED_SWAP, SWAP, WRITE_OF, Operations
from harness.model import BadInput


@dataclass(frozen=True, slots=True)
class PossibleOperations:
    """The operations that may have happened: the rows of their two ends (NOBODY for none), how they ended, and back.

    Key i has the operations starts[i] to starts[i + 1].
    """

    rows: Rows
    ends: Rows
    ended: Rows
    back: Rows
    starts: Rows


@dataclass(frozen=True, slots=True)
class Batch:
    """The operations of many keys, one key after the other; texts name the states from NIL on."""

    columns: Operations
    starts: Rows
    texts: list[str]

    def of(self, which: int) -> Operations:
        """One key's operations."""
        first, last = self.starts[which], self.starts[which + 1]
        return Operations(*(column[first:last] for column in self.columns))


def possible_operations(keys: Keys, crashed_reads: bool = False) -> PossibleOperations:
    """The operations that may have happened; crashed_reads keeps reads that crashed (a dequeue changes state)."""
    invoked = np.flatnonzero(keys.kind == INVOKE)
    ends = keys.partner[invoked]
    ended = np.where(ends == NOBODY, INFO, keys.kind[ends])
    is_crashed_read = (keys.f[invoked] == READ) & (ended == INFO) & (not crashed_reads)
    kept = (ended != FAIL) & ~is_crashed_read
    invoked, ends, ended = invoked[kept], ends[kept], ended[kept]
    back = np.where(ended == INFO, NEVER, ends)
    return PossibleOperations(invoked, ends, ended, back, np.searchsorted(invoked, keys.starts))


def register_operations(keys: Keys) -> Batch:
    """Reads, writes and compare-and-sets. Raises BadInput for a compare-and-set whose value is no pair."""
    found = possible_operations(keys)
    f, argument = keys.f[found.rows], keys.value[found.rows]
    swaps = np.flatnonzero(f == CAS)
    expected, new, texts = pairs_of(keys, found.rows[swaps])
    code = np.select([f == READ, f == WRITE, found.ended == REFUSED], [READ_OF, WRITE_OF, REFUSED_SWAP], SWAP)
    a = np.where(f == READ, keys.value[found.ends], argument).astype(np.int64)
    b = np.full(len(f), NIL)
    a[swaps], b[swaps] = expected, new
    return Batch(Operations(found.rows, found.back, code, a, b), found.starts, texts)


def pairs_of(keys: Keys, rows: Rows) -> tuple[Rows, Rows, list[str]]:
    """The expected and new values of these rows' compare-and-sets, and all values' texts, theirs included."""
    texts = list(keys.texts)
    numbers = {text: number for number, text in enumerate(texts)} if len(rows) else {}
    numbers["null"] = NIL
    pairs = np.zeros((len(keys.texts), 2), np.int64)
    argument, first = np.unique(keys.value[rows], return_index=True)
    for value, at in zip(argument.tolist(), first.tolist(), strict=True):
        pair = json.loads(texts[value]) if value != NIL else None
        if not isinstance(pair, list) or len(pair) != 2:
            index = keys.index[rows[at]]
            raise BadInput(f"history index {index}: expected a cas value [old, new], found {texts[value]}")
        for place, member in enumerate(pair):
            text = json.dumps(member)
            number = numbers.setdefault(text, len(texts))
            if number == len(texts):
                texts.append(text)
            pairs[value, place] = number
    expected, new = pairs[keys.value[rows]].T
    return expected, new, texts
