"""What a model is: its signature, and the function that checks whole keys of operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys
from checkers.linearizability.signatures import Signature
from harness.model.records.evidence import Evidence
from harness.model.records.finding import Severity


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a key is not valid: a finding's name, severity and message, the rows that witness it, and the evidence for a
    picture."""

    name: str
    severity: Severity
    message: str
    rows: Sequence[int]
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one key: the algorithm, how many operations it checked, and the problems, the gravest first."""

    algorithm: str
    operations: int
    problem: Problem | None = None
    others: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """judge: an outcome for each key, in order."""

    signature: Signature
    judge: Callable[[Keys, JudgeSettings], list[Outcome]]

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def fs(self) -> tuple[str, ...]:
        return self.signature.fs
