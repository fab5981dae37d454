"""A source of ids: generate returns an id that it never returned before.

duplicate-id    two operations returned one id
"""

from __future__ import annotations

import numpy as np

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys
from checkers.framework.operations import PossibleOperations, possible_operations
from checkers.kernels.rows import NIL
from checkers.linearizability import signatures
from checkers.linearizability.models.model import Model, Outcome, Problem

FS = signatures.UNIQUE_IDS.fs


def judge(keys: Keys, settings: JudgeSettings) -> list[Outcome]:  # noqa: ARG001 - no settings apply
    """Check each key's ids."""
    found = possible_operations(keys)
    bounds = zip(found.starts[:-1], found.starts[1:], strict=True)
    return [judge_key(keys, found, slice(*bound)) for bound in bounds]


def judge_key(keys: Keys, found: PossibleOperations, part: slice) -> Outcome:
    """One key's outcome; a nil is no id."""
    ends = found.ends[part]
    ends = ends[keys.value[ends] != NIL]
    _, first, number, times = np.unique(keys.value[ends], return_index=True, return_inverse=True, return_counts=True)
    again = np.setdiff1d(np.arange(len(ends)), first)
    outcome = Outcome("distinct ids", int(part.stop - part.start))
    if not len(again):
        return outcome
    second = int(again[0])
    rows = [int(ends[first[number[second]]]), int(ends[second])]
    described = " and ".join(keys.describe(row) for row in rows)
    message = f"ids are unique: {described} returned one id; {int(np.sum(times > 1))} ids were returned more than once"
    rows += [int(keys.partner[row]) for row in rows]
    return Outcome(outcome.algorithm, outcome.operations, Problem("duplicate-id", "invalid", message, rows))


UNIQUE_IDS = Model(signatures.UNIQUE_IDS, judge)
