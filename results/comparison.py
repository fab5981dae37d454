"""The result of a comparison of two sets of runs, as values: what `compare` prints, and what its pages show.

Contains the values and what follows from them. harness.comparing makes them; comparison_report.py renders them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from harness.model import Verdict
from harness.model.plurals import counted

Status = Literal[
    "newly failing",
    "worse",
    "more failures, may be chance",
    "still failing",
    "flaky",
    "unknown",
    "not run",
    "newly passing",
    "fewer failures, may be chance",
    "better",
    "new case",
    "passing",
]
"""What became of a case, the most important first. `worse` and `better` are quantities of a case that passes."""

STATUSES: Final[tuple[Status, ...]] = get_args(Status)
REGRESSIONS: Final = ("newly failing", "worse")
UNDECIDED: Final = ("more failures, may be chance", "unknown", "not run")


@dataclass(frozen=True, slots=True)
class Rate:
    """The runs of a case: how many failed of those that passed or failed, with Wilson's 95 % interval.

    Unknown runs, and those that failed by known findings only, are counted apart.
    """

    failed: int
    decided: int
    unknown: int
    known: int
    low: float
    high: float

    @property
    def text(self) -> str:
        """E.g. `3 of 8 failed (14 to 69 %)`."""
        extra = [f"{number} {name}" for name, number in (("unknown", self.unknown), ("known", self.known)) if number]
        more = f", {', '.join(extra)}" if extra else ""
        if not self.decided:
            return f"none decided{more}"
        return f"{self.failed} of {self.decided} failed ({self.low:.0%} to {self.high:.0%}){more}"


@dataclass(frozen=True, slots=True)
class QuantityChange:
    """A quantity of a case in both sets: the medians, and the shift with its 95 % interval (Hodges and Lehmann).

    p is that of the Mann-Whitney test, p_corrected with Holm's correction over all quantities of the comparison.
    is_worse is None unless the change is significant and large enough to matter.
    """

    name: str
    title: str
    base: float
    head: float
    base_text: str
    head_text: str
    shift: float
    low: float
    high: float
    interval_text: str
    p: float
    p_corrected: float
    is_worse: bool | None


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A case in both sets. change says what differs, e.g. `system kafka:4.3.1, now kafka:3.9.1`; "" if nothing does.

    p is that of Fisher's exact test, p_corrected with Holm's correction over all cases. new_problems are names that no
    base run has; known_problems maps names to issues. base_run and head_run are examples, the failing one first.
    """

    case: str
    system: str
    change: str
    status: Status
    base: Rate
    head: Rate
    p: float
    p_corrected: float
    problems: tuple[str, ...] = ()
    new_problems: tuple[str, ...] = ()
    known_problems: Mapping[str, str] | None = None
    message: str = ""
    quantities: tuple[QuantityChange, ...] = ()
    base_run: str | None = None
    head_run: str | None = None
    command: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sets of runs by name, the cases by importance, and what became of known findings.

    gone are known findings that base has and head has not, though their case ran; expired are entries that no longer
    count.
    """

    base: str
    head: str
    base_runs: int
    head_runs: int
    cases: tuple[CaseChange, ...]
    gone: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    level_failures: float = 0.0
    level_quantities: float = 0.0

    def of(self, *statuses: str) -> list[CaseChange]:
        """The cases with one of these statuses."""
        return [case for case in self.cases if case.status in statuses]

    @property
    def verdict(self) -> Verdict:
        """Invalid if something got worse; unknown if that cannot be decided, or nothing was compared; else valid."""
        compared = [case for case in self.cases if case.status not in ("not run", "new case")]
        if self.of(*REGRESSIONS):
            return Verdict.INVALID
        return Verdict.UNKNOWN if self.of(*UNDECIDED) or not compared else Verdict.VALID

    @property
    def headline(self) -> str:
        """The comparison in a sentence."""
        if worse := self.of(*REGRESSIONS):
            first = worse[0]
            more = f" and {counted(len(worse) - 1, 'more case')}" if len(worse) > 1 else ""
            return f"{self.head} is worse than {self.base}: {first.case} on {first.system} {_why(first)}{more}."
        if undecided := self.of(*UNDECIDED):
            return f"Nothing is known to be worse than in {self.base}, but {counted(len(undecided), 'case')} undecided."
        better = len(self.of("newly passing", "better"))
        if not self.cases:
            return f"{self.head} and {self.base} have no runs to compare."
        return f"{self.head} is not worse than {self.base}" + (
            f"; {counted(better, 'case')} better." if better else "."
        )

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON."""
        return {**asdict(self), "verdict": self.verdict.value, "headline": self.headline}


def _why(case: CaseChange) -> str:
    if case.status == "newly failing":
        problems = ", ".join(case.new_problems or case.problems)
        return f"fails in {case.head.failed} of {case.head.decided} runs" + (f" ({problems})" if problems else "")
    first = next(each for each in case.quantities if each.is_worse)
    return f"has a {first.title} of {first.head_text} instead of {first.base_text}"
