"""A grow-only set with full reads: add, and read that returns a list of all elements (kernels/inclusion.py)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys
from checkers.framework.operations import PossibleOperations, possible_operations
from checkers.kernels import inclusion
from checkers.kernels.inclusion import SetHistory
from checkers.kernels.rows import NIL, NOBODY, READ
from checkers.linearizability import signatures
from checkers.linearizability.models.model import Model, Outcome, Problem
from harness.model import BadInput

GUARANTEES = {
    inclusion.NEVER_ADDED: "reads return what was added: {0} shows an element that was never added",
    inclusion.APART: "a set only grows: neither of {0} and {1} includes the other",
    inclusion.OUT_OF_ORDER: "reads show every element added before them, and none added after: {0} ended before {1} "
    "began, and what the reads show puts it after",
}
FS = signatures.SET.fs


def judge(keys: Keys, settings: JudgeSettings) -> list[Outcome]:  # noqa: ARG001 - keys.texts has the initial value
    """Check each key by the inclusion of its reads."""
    found = possible_operations(keys)
    outcomes = []
    for which in range(len(keys.names)):
        history, elements = set_history(keys, found, which)
        verdict, *witness = inclusion.judge_set(history, elements)
        problem = None if verdict == inclusion.VALID else problem_of(keys, history, verdict, witness)
        outcomes.append(Outcome("inclusion of reads", int(found.starts[which + 1] - found.starts[which]), problem))
    return outcomes


def problem_of(keys: Keys, history: SetHistory, verdict: int, witness: list[int]) -> Problem:
    """The problem that a verdict stands for."""
    rows = [int(history.call[one]) for one in witness if one != NOBODY and history.call[one] != NOBODY]
    described = [keys.describe(row) for row in rows] + ["the initial value"]
    message = GUARANTEES[verdict].format(*described)
    return Problem("non-linearizable", "invalid", message, [*rows, *(int(keys.partner[row]) for row in rows)])


def set_history(keys: Keys, found: PossibleOperations, which: int) -> tuple[SetHistory, int]:
    """One key's operations with elements as numbers, and the number of elements. The initial elements are adds that
    returned before everything else. Raises BadInput for a read that did not return a list.
    """
    numbers: dict[str, int] = {}
    lists: dict[int, list[int]] = {}

    def number_of(element: object) -> int:
        return numbers.setdefault(json.dumps(element), len(numbers))

    def members_of(value: int, row: int) -> list[int]:
        if value not in lists:
            lists[value] = sorted({number_of(element) for element in elements_of(keys, value, row)})
        return lists[value]

    held = members_of(NIL, 0)
    call, back, element = [NOBODY] * len(held), [NOBODY] * len(held), list(held)
    members: list[int] = []
    offsets = [0] * (len(held) + 1)
    part = slice(found.starts[which], found.starts[which + 1])
    for row, end, returned in zip(found.rows[part], found.ends[part], found.back[part], strict=True):
        call.append(row)
        back.append(returned)
        if keys.f[row] == READ:
            element.append(NOBODY)
            members += members_of(int(keys.value[end]), end)
        else:
            element.append(number_of(json.loads(keys.texts[keys.value[row]]) if keys.value[row] != NIL else None))
        offsets.append(len(members))
    return SetHistory(*(np.array(column, np.int64) for column in (call, back, element, offsets, members))), len(numbers)


def elements_of(keys: Keys, value: int, row: int) -> list[Any]:
    """The elements in a value that a read of this row returned. Raises BadInput if it is not a list."""
    elements = json.loads("[]" if keys.texts[value] == "nil" else keys.texts[value])
    if not isinstance(elements, list):
        place = f"history index {keys.index[row]}"
        raise BadInput(f"{place}: expected a list of the set's elements, found {keys.shown(value)}")
    return elements


SET = Model(signatures.SET, judge)
