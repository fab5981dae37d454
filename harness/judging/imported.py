"""`splitbrain check PATH… --model NAME`: histories from elsewhere to a verdict each, all in one Spark session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.histories.importing import Import, Imported, imported
from harness.judging.spark import open_spark
from harness.model import BadInput, Finding, Verdict
from harness.model.records.finding import gravest_first, verdict_of

if TYPE_CHECKING:
    from checkers.framework.contract import Semantics
    from checkers.imported import FileResults, Source

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class HeldTo:
    """What histories are held to: a model by name, what nil reads and failed swaps say, and what it holds at first."""

    model: str
    semantics: Semantics = "strict"
    initial: str | None = None
    skip_malformed: bool = False


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """One file's verdict and what it rests on; seconds are those of reading and judging it."""

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
    """Judge every history at these paths. Raises BadInput for a model or history that is none."""
    from checkers.framework.contract import JudgeSettings
    from checkers.imported import judge_files
    from checkers.linearizability.models import model_named

    model = model_named(held_to.model)
    if held_to.initial is not None and not model.takes_initial:
        raise BadInput(f"--initial {held_to.initial}: expected none, since a {model.name} is empty or free at first")
    settings = JudgeSettings(semantics=held_to.semantics, initial=initial_json(held_to.initial))
    report("reading histories")
    with imported(paths, model.fs, held_to.skip_malformed) as histories:
        report("starting Spark")
        sources = sources_of(histories)
        spark = open_spark(master, [table for source in sources for table in source.tables])
        report(f"judging {len(histories.histories)} histories")
        judged = judge_files(spark, sources, len(histories.histories), model.name, settings)
        for history, said in zip(histories.histories, judged, strict=True):
            yield verdict_on(history, said, held_to)


def initial_json(text: str | None) -> str | None:
    """The value as our JSON: what is no JSON is a string."""
    if text is None or text in ("nil", "null"):
        return None
    try:
        return json.dumps(json.loads(text))
    except ValueError:
        return json.dumps(text)


def sources_of(histories: Import) -> list[Source]:
    """The tables to judge."""
    from checkers.imported import Source

    own = [Source(history.tables, history.number) for history in histories.histories if history.tables]
    return own if histories.common is None else [Source((histories.common,)), *own]


def verdict_on(history: Imported, said: FileResults, held_to: HeldTo) -> FileVerdict:
    """One file's verdict: what was judged, and what could not be."""
    findings = list(said.findings)
    if history.malformed:
        message = f"{history.malformed} malformed rows were skipped, the first at {history.first_malformed}"
        findings.append(Finding("import", "malformed-rows", "unknown", message, count=history.malformed))
    if not said.operations and not findings:
        message = f"none of {history.rows} rows is an operation that a {held_to.model} can be judged by"
        findings.append(Finding("import", "no-operations", "unknown", message))
    return FileVerdict(
        path=str(history.path),
        model=held_to.model,
        semantics=held_to.semantics,
        verdict=verdict_of(findings),
        algorithm=", ".join(said.algorithms),
        ops=said.operations,
        keys=said.keys,
        seconds=round(history.seconds + said.seconds, 6),
        findings=gravest_first(findings),
    )
