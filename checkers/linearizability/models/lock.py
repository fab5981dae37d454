"""A mutex: acquire finds it free and leaves it held, release the reverse; nobody asks who holds it.

That is a register with two values and nothing but compare-and-sets. All acquires do the same, and all releases, so the
searches try only the one that must go soonest: a few configurations a position, and time that grows with the history.
One that failed says nothing, since giving up is not finding the lock held.

What may live here: this model. What may not: kernels.
"""

from __future__ import annotations

import numpy as np

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys
from checkers.framework.operations import Batch, possible_operations
from checkers.kernels.steps import SWAP, Operations
from checkers.linearizability.models.model import Model, Outcome
from checkers.linearizability.portfolio import searched

GUARANTEE = "one holds the lock at a time"
FS = ("", "acquire", "release")
STATES = ("free", "held")


def judge(keys: Keys, settings: JudgeSettings) -> list[Outcome]:
    """Each key by search."""
    batch = lock_operations(keys)
    return [
        searched(keys, batch.of(which), GUARANTEE, settings.search_steps, STATES.__getitem__)
        for which in range(len(keys.names))
    ]


def lock_operations(keys: Keys) -> Batch:
    """Acquires as swaps from free to held, releases as swaps back."""
    found = possible_operations(keys)
    releases = (keys.f[found.rows] == FS.index("release")).astype(np.int64)
    code = np.full(len(releases), SWAP)
    return Batch(Operations(found.rows, found.back, code, releases, 1 - releases), found.starts, list(STATES))


MUTEX = Model("mutex", FS, judge, takes_initial=False)
