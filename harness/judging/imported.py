"""`splitbrain check PATH… --model NAME`: a verdict on each external history, all in one Spark session."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.histories.importing import Import, ImportedHistory, import_histories
from harness.judging.spark import open_spark
from harness.model import BadInput, Finding, Verdict
from harness.model.records.finding import most_severe_first, verdict_of
from harness.model.systems import Report

if TYPE_CHECKING:
    from checkers.framework.contract import Semantics
    from checkers.imported import FileResults, Source


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
    """The verdict on one file. seconds is the time to read and check it."""

    path: str
    model: str
    semantics: str
    verdict: Verdict
    algorithm: str
    ops: int
    keys: int
    seconds: float
    findings: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """The verdict as one JSON object."""
        return asdict(self) | {"verdict": self.verdict.value}

    def as_text(self) -> str:
        """The verdict in a line, and a line for each finding."""
        line = f"{self.path}: {self.verdict.value.upper()} ({self.ops} operations, {self.keys} keys; {self.algorithm})"
        return "\n  ".join([line, *(f"{each.severity}: {each.name}: {each.message}" for each in self.findings)])


def check_files(paths: Sequence[Path], held_to: HeldTo, master: str | None, report: Report) -> Iterator[FileVerdict]:
    """Check every history at these paths. Raises BadInput for an unknown model or a malformed history."""
    from checkers.framework.contract import JudgeSettings
    from checkers.imported import judge_files
    from checkers.linearizability.models import model_named

    model = model_named(held_to.model)
    if held_to.initial is not None and not model.takes_initial:
        raise BadInput(f"--initial {held_to.initial}: not supported: the initial state of a {model.name} is fixed")
    settings = JudgeSettings(semantics=held_to.semantics, initial=initial_json(held_to.initial))
    report("reading histories")
    with import_histories(paths, model.fs, held_to.skip_malformed) as histories:
        report("starting Spark")
        sources = sources_of(histories)
        spark = open_spark(master, [table for source in sources for table in source.tables])
        report(f"checking {len(histories.histories)} histories")
        judged = judge_files(spark, sources, len(histories.histories), model.name, settings)
        for history, results in zip(histories.histories, judged, strict=True):
            yield verdict_on(history, results, held_to)


def initial_json(text: str | None) -> str | None:
    """The value as JSON text; text that is not JSON is a string."""
    if text is None or text in ("nil", "null"):
        return None
    try:
        return json.dumps(json.loads(text))
    except ValueError:
        return json.dumps(text)


def sources_of(histories: Import) -> list[Source]:
    """The tables to check."""
    from checkers.imported import Source

    own = [Source(history.tables, history.number) for history in histories.histories if history.tables]
    return own if histories.common is None else [Source((histories.common,)), *own]


def verdict_on(history: ImportedHistory, results: FileResults, held_to: HeldTo) -> FileVerdict:
    """The verdict on one file, with findings for what could not be checked."""
    findings = list(results.findings)
    if history.malformed:
        message = f"{history.malformed} malformed rows were skipped, the first at {history.first_malformed}"
        findings.append(Finding("import", "malformed-rows", "unknown", message, count=history.malformed))
    if not results.operations and not findings:
        message = f"none of the {history.rows} rows is an operation of a {held_to.model}"
        findings.append(Finding("import", "no-operations", "unknown", message))
    return FileVerdict(
        path=str(history.path),
        model=held_to.model,
        semantics=held_to.semantics,
        verdict=verdict_of(findings),
        algorithm=", ".join(results.algorithms),
        ops=results.operations,
        keys=results.keys,
        seconds=round(history.seconds + results.seconds, 6),
        findings=most_severe_first(findings),
    )
