"""What a model is: a name, the words of its operations, and the function that judges whole keys of them.

What may live here: that shape. What may not: a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys
from harness.model.records.evidence import Evidence
from harness.model.records.finding import Severity


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a key is not valid: a finding's name, severity and message, the rows of the keys that witness it, and what a
    picture of it needs."""

    name: str
    severity: Severity
    message: str
    rows: Sequence[int]
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was said of one key: by which algorithm, of how many operations, and what is wrong if anything is, the
    gravest first and then others."""

    algorithm: str
    operations: int
    problem: Problem | None = None
    others: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """fs: the words of the operations, a word's place its code. The first returns a value (where the model has no such
    operation it is empty), the others carry one. judge: an outcome for each key, in order. takes_initial: whether it
    may hold something at first.
    """

    name: str
    fs: tuple[str, ...]
    judge: Callable[[Keys, JudgeSettings], list[Outcome]]
    takes_initial: bool = True
