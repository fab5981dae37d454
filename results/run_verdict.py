"""The verdict on one run, with the results of its checks and expectations, as a value and as verdict.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.model import BadInput, Finding, Quantity, Verdict
from harness.model.stored_names import CHECKS, current_finding
from results.description import RunDescription
from results.files import read_json, write_json
from results.quantities import measured_text
from results.store import RunDirectory

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """A scenario's expectation as text, the measurement, and whether it is met (None: unknown).

    quantity and value are the name and the value of what was measured, if that is a quantity.
    """

    text: str
    measured: str
    met: bool | None
    quantity: str | None = None
    value: float | None = None

    @property
    def measured_text(self) -> str:
        """The measurement as a person reads it."""
        if self.quantity is None:
            return self.measured
        if self.value is None:
            return "could not be measured"
        return measured_text(self.quantity, self.value)


@dataclass(frozen=True, slots=True)
class SideResult:
    """One run of a reproduction: its name, e.g. `bad-1`, its verdict in short, and what was run."""

    name: str
    verdict: str
    headline: str
    summary: str
    description: RunDescription | None = None


@dataclass(frozen=True, slots=True)
class KnownDefect:
    """A known defect that a run shows: its scenario, the name of the finding that shows it, how many there are of it,
    and how many other findings may follow from it."""

    defect: str
    finding: str
    shown: int
    may_follow: int


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict on one run or reproduction, and its basis.

    name is the scenario's id or the workload's name, summary is the verdict in one sentence, checks are the names of
    the checks that ran, command repeats the run. headline is one of results.headline; for a reproduction, sides are its
    runs. Verdicts of earlier releases have neither headline nor description. known_defects are those of a run without a
    scenario.
    """

    name: str
    verdict: Verdict
    summary: str
    checks: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    quantities: tuple[Quantity, ...] = ()
    expectations: tuple[ExpectationResult, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    headline: str = ""
    description: RunDescription | None = None
    sides: tuple[SideResult, ...] = ()
    known_defects: tuple[KnownDefect, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON."""
        return asdict(self) | {"verdict": self.verdict.value, "headline": self.headline or self.verdict.value}


def write_verdict(run: RunDirectory, run_verdict: RunVerdict) -> None:
    """Write verdict.json, and the findings also as findings.json."""
    document = run_verdict.to_json()
    write_json(run.findings, document["findings"])
    write_json(run.verdict, {"format": FORMAT, **document})


def read_verdict(path: Path) -> RunVerdict:
    """The verdict in a verdict.json. Raises BadInput if the file is not valid."""
    document = read_json(path)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadInput(f"{path}: expected a verdict of format {FORMAT}")
    try:
        return _parse(document)
    except KeyError as error:
        raise BadInput(f"{path}: expected a verdict of format {FORMAT}, found none with {error.args[0]}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{path}: expected a verdict of format {FORMAT}, found values of other types") from error


def _parse(document: dict[str, Any]) -> RunVerdict:
    return RunVerdict(
        name=document["name"],
        verdict=Verdict(document["verdict"]),
        summary=document["summary"],
        checks=tuple(CHECKS.get(name, name) for name in document["checks"]),
        findings=tuple(_finding(current_finding(each)) for each in document["findings"]),
        quantities=tuple(Quantity(**each) for each in document["quantities"]),
        expectations=tuple(ExpectationResult(**each) for each in document["expectations"]),
        versions=document["versions"],
        command=document["command"],
        headline=document.get("headline", ""),
        description=RunDescription.from_json(document.get("description")),
        sides=tuple(_side(each) for each in document.get("sides", ())),
        known_defects=tuple(KnownDefect(**each) for each in document.get("known_defects", ())),
    )


def _side(stored: dict[str, Any]) -> SideResult:
    return SideResult(**{**stored, "description": RunDescription.from_json(stored["description"])})


def _finding(stored: dict[str, Any]) -> Finding:
    return Finding(**{**stored, "witnesses": tuple(stored["witnesses"])})
