"""A store of texts by key: put, append and get. Keys are independent; a key holds the empty text at first.

Only prefixes of what some get returned matter (kernels/steps.py), so a state is the node of such a prefix.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys
from checkers.framework.operations import PossibleOperations, possible_operations
from checkers.kernels.rows import NIL, READ, Rows
from checkers.kernels.steps import APPEND, READ_OF, WRITE_OF, Operations, Texts, nodes_of, tree_of
from checkers.linearizability import signatures
from checkers.linearizability.models.model import Model, Outcome
from checkers.linearizability.portfolio import searched

GUARANTEE = "gets see the latest put and every append since, in order"
FS = signatures.KEY_VALUE.fs


def judge(keys: Keys, settings: JudgeSettings) -> list[Outcome]:
    """Check each key by search."""
    found = possible_operations(keys)
    outcomes = []
    for which in range(len(keys.names)):
        operations, texts, initial = key_operations(keys, found, which)
        outcomes.append(searched(keys, operations, GUARANTEE, settings.search_steps, texts=texts, initial=initial))
    return outcomes


def key_operations(keys: Keys, found: PossibleOperations, which: int) -> tuple[Operations, Texts, int]:
    """One key's operations, the tree of the texts that its gets returned, and the initial node."""
    part = slice(found.starts[which], found.starts[which + 1])
    rows, back, f = found.rows[part], found.back[part], keys.f[found.rows[part]]
    value = np.where(f == READ, keys.value[found.ends[part]], keys.value[rows])
    values, place = np.unique(np.append(value, NIL), return_inverse=True)
    words = [letters_of(keys.texts[number]) for number in values.tolist()]
    seen = np.unique(place[:-1][f == READ])
    edge, child, ends = tree_of(*packed(words[number] for number in seen.tolist()))
    texts = Texts(edge, child, *packed(words))
    node = nodes_of(texts)
    node[seen] = ends
    place = place.astype(np.int64)
    code = np.choose(f, (READ_OF, WRITE_OF, APPEND)).astype(np.int64)
    a = np.where(code == APPEND, place[:-1], node[place[:-1]])
    return Operations(rows, back, code, a, np.zeros_like(a)), texts, int(node[place[-1]])


def letters_of(text: str) -> bytes:
    """The bytes of a value: a string's, none for nil, the JSON of any other."""
    value = None if text == "nil" else json.loads(text)
    return b"" if value is None else (value if isinstance(value, str) else text).encode()


def packed(words: Iterable[bytes]) -> tuple[Rows, Rows]:
    """The words concatenated, and where each begins."""
    listed = list(words)
    offsets = np.cumsum([0, *map(len, listed)], dtype=np.int64)
    return np.frombuffer(b"".join(listed) or b"\0", np.uint8), offsets


KEY_VALUE = Model(signatures.KEY_VALUE, judge)
