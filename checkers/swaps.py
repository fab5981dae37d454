"""One key's rows as the search's operations: who called when, who returned, and what each asked of the register.

What may live here: that translation, compare-and-sets' pairs of values included. What may not: the search.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from checkers.kernels.rows import CAS, FAIL, INFO, INVOKE, NEVER, NIL, NOBODY, OK, READ, WRITE, Rows
from checkers.kernels.search import READ_OF, REFUSED_SWAP, SWAP, WRITE_OF
from checkers.keyed import REFUSED, Keys
from harness.model import BadInput

Operation = tuple[int, int, int, int, int]
"""call, back, code, a, b: see checkers/kernels/search.py."""


def operations(keys: Keys, which: int) -> Rows:
    """The operations of one key in order of invocation, one column each (call, back, code, a, b)."""
    pairs = swap_pairs(keys.texts)
    found = list(effective(keys, range(keys.starts[which], keys.starts[which + 1]), pairs))
    return np.array(found, np.int64).reshape(-1, 5).T.copy()


def effective(keys: Keys, rows: range, pairs: dict[int, tuple[int, int]]) -> Iterator[Operation]:
    """Leave out what failed and reads that nobody saw end: they ask nothing of the register."""
    for row in rows:
        if keys.kind[row] != INVOKE:
            continue
        end = int(keys.partner[row])
        ended = INFO if end == NOBODY else keys.kind[end]
        back = end if ended in (OK, REFUSED) else int(NEVER)
        if ended == FAIL or (keys.f[row] == READ and ended != OK):
            continue
        if keys.f[row] == READ:
            yield row, back, READ_OF, int(keys.value[end]), NIL
        elif keys.f[row] == WRITE:
            yield row, back, WRITE_OF, int(keys.value[row]), NIL
        elif keys.f[row] == CAS:
            yield row, back, REFUSED_SWAP if ended == REFUSED else SWAP, *pair_of(keys, row, pairs)


def pair_of(keys: Keys, row: int, pairs: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """What a compare-and-set expects and what it writes. Raises BadInput where its value says neither."""
    pair = pairs.get(int(keys.value[row]))
    if pair is None:
        found = keys.texts[keys.value[row]]
        raise BadInput(f"history index {keys.index[row]}: expected a cas value [old, new], found {found}")
    return pair


def swap_pairs(texts: list[str]) -> dict[int, tuple[int, int]]:
    """For each value number whose JSON is a pair: the numbers of its two members, new numbers where need be."""
    parsed = [None, *map(json.loads, texts[1:])]
    numbers = {json.dumps(value): number for number, value in reversed(list(enumerate(parsed)))}
    return {
        number: (
            numbers.setdefault(json.dumps(value[0]), len(texts) + len(numbers)),
            numbers.setdefault(json.dumps(value[1]), len(texts) + len(numbers)),
        )
        for number, value in enumerate(parsed)
        if isinstance(value, list) and len(value) == 2
    }
