"""Known findings: those for which there is an issue, so that a new finding stands out.

    known = read_known(Path("known-findings.toml"))
    known.outcome_of(row)        # `known` for a failed run with known problems only

    [[known]]
    finding = "hanging-transaction"      # a pattern, as in a shell
    case = "*"                           # `PV-01 good`, `explore`, …; all by default
    system = "kafka:*"                   # all by default
    issue = "KAFKA-20734"
    expires = 2027-06-30                 # the entry counts up to this day

Contains the file and its meaning. A known finding never hides another one of the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from harness.judging.index import Problem, RunRow
from harness.planning.plan import checked
from harness.text_files import read_toml

DEFAULT_FILE: Final = Path("known-findings.toml")
"""Read if it exists and the user names no other."""


class KnownFinding(BaseModel):
    """An entry: which findings, of which cases on which systems, belong to an issue, and until when."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    finding: str = Field(min_length=1)
    case: str = "*"
    system: str = "*"
    issue: str = Field(min_length=1)
    expires: date

    def matches(self, row: RunRow, problem: Problem) -> bool:
        """Whether the entry means this problem of this run."""
        return (
            fnmatchcase(problem.name, self.finding)
            and fnmatchcase(row.case, self.case)
            and (fnmatchcase(row.system, self.system) or fnmatchcase(row.family, self.system))
        )


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    known: list[KnownFinding] = []


@dataclass(frozen=True, slots=True)
class Known:
    """The entries that count today, and those that have expired."""

    entries: tuple[KnownFinding, ...] = ()
    expired: tuple[KnownFinding, ...] = ()

    def entry_of(self, row: RunRow, problem: Problem) -> KnownFinding | None:
        """The entry that means this problem; None if it is new."""
        return next((entry for entry in self.entries if entry.matches(row, problem)), None)

    def new_problems(self, row: RunRow) -> list[Problem]:
        """The problems of a run that no entry means."""
        return [problem for problem in row.problems if self.entry_of(row, problem) is None]

    def outcome_of(self, row: RunRow) -> str | None:
        """The run's outcome; `known` if it failed only by known findings."""
        is_known = row.outcome == "failed" and row.problems and not self.new_problems(row)
        return "known" if is_known else row.outcome

    def seen_in(self, rows: Sequence[RunRow]) -> frozenset[KnownFinding]:
        """The entries that mean a problem of one of these runs."""
        found = (self.entry_of(row, problem) for row in rows for problem in row.problems)
        return frozenset(entry for entry in found if entry is not None)


def read_known(path: Path | None, today: date) -> Known:
    """The entries of a file; none if the user names none and there is no DEFAULT_FILE.

    Raises BadInput that names file, entry and key.
    """
    if path is None and not DEFAULT_FILE.exists():
        return Known()
    file = path or DEFAULT_FILE
    entries = checked(_File, read_toml(file, "known findings in TOML"), str(file), flags=()).known
    return Known(
        tuple(entry for entry in entries if entry.expires >= today),
        tuple(entry for entry in entries if entry.expires < today),
    )
