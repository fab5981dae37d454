"""The verdict on one run, with the results of its checks and expectations, as a value and as verdict.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.model import BadInput, Finding, Quantity, Verdict
from harness.model.stored_names import CHECKS, current_finding
from results.files import read_json, write_json
from results.store import RunDirectory

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """A scenario's expectation as text, the measurement, and whether it is met (None: unknown)."""

    text: str
    measured: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict on one run or reproduction, and its basis.

    name is the scenario's id or the workload's name, summary is the verdict in one sentence, checks are the names of
    the checks that ran, command repeats the run.
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


def write_verdict(run: RunDirectory, run_verdict: RunVerdict) -> None:
    """Write verdict.json, and the findings also as findings.json."""
    document = asdict(run_verdict) | {"verdict": run_verdict.verdict.value}
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
    )


def _finding(stored: dict[str, Any]) -> Finding:
    return Finding(**{**stored, "witnesses": tuple(stored["witnesses"])})
