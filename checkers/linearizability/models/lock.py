"""A mutex: acquire finds it free and leaves it held, release the reverse. The model does not track the holder.

It is a register with two values and only compare-and-sets. All acquires have the same effect, and all releases, so the
searches try only the one that returns first: a few configurations a position, and time linear in the history. A failed
operation proves nothing, since a client may give up without having found the lock held.
"""

from __future__ import annotations

import numpy as np

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys
from checkers.framework.operations import Batch, possible_operations
from checkers.kernels.steps import SWAP, Operations
from checkers.linearizability import signatures
from checkers.linearizability.models.model import Model, Outcome
from checkers.linearizability.portfolio import searched

GUARANTEE = "one holds the lock at a time"
FS = signatures.MUTEX.fs
STATES = ("free", "held")


def judge(keys: Keys, settings: JudgeSettings) -> list[Outcome]:
    """Check each key by search."""
    batch = lock_operations(keys)
    return [
        searched(keys, batch.of(which), GUARANTEE, settings.search_steps, STATES.__getitem__)
        for which in range(len(keys.names))
    ]


def lock_operations(keys: Keys) -> Batch:
    """Acquires as swaps from free to held, releases as the reverse."""
    found = possible_operations(keys)
    releases = (keys.f[found.rows] == FS.index("release")).astype(np.int64)
    code = np.full(len(releases), SWAP)
    return Batch(Operations(found.rows, found.back, code, releases, 1 - releases), found.starts, list(STATES))


MUTEX = Model(signatures.MUTEX, judge)
