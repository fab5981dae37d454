"""The values of `splitbrain check --model`: what histories are checked against, and the results.

Contains the values and how they are printed. Does not contain the check.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from harness.model import Finding, Verdict
from harness.model.plurals import counted

if TYPE_CHECKING:
    from checkers.framework.contract import Semantics


@dataclass(frozen=True, slots=True)
class HeldTo:
    """The model that histories are checked against.

    semantics says what nil reads and failed compare-and-sets mean; initial is the model's first value as JSON.
    """

    model: str
    semantics: Semantics = "strict"
    initial: str | None = None
    skip_malformed: bool = False


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """The verdict on one file. seconds is the time to read and check it; report is its HTML file, if there is one."""

    path: str
    model: str
    semantics: str
    verdict: Verdict
    algorithm: str
    ops: int
    keys: int
    seconds: float
    findings: tuple[Finding, ...]
    report: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The verdict as one JSON object."""
        return asdict(self) | {"verdict": self.verdict.value}

    def as_text(self) -> str:
        """The verdict in a line, and a line for each finding."""
        size = f"{counted(self.ops, 'operation')}, {counted(self.keys, 'key')}"
        line = f"{self.path}: {self.verdict.value.upper()} ({size}; {self.algorithm or 'nothing to check'})"
        return "\n  ".join([line, *(f"{each.severity}: {each.name}: {each.message}" for each in self.findings)])


@dataclass(frozen=True, slots=True)
class Refused:
    """A history that cannot be checked, and why: one line that names the place."""

    path: str
    error: str

    def as_json(self) -> dict[str, Any]:
        """The refusal as one JSON object, with the keys that a verdict has for these facts."""
        return asdict(self) | {"verdict": None}
