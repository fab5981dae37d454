"""`splitbrain check PATH… --model NAME`: a verdict on each external history, all in one Spark session.

Spark starts while the histories are read. One that cannot be read is refused, and the others are judged.

Contains the way from paths to verdicts. Reading is harness.histories, the reports are harness.judging.check_reports.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from checkers.linearizability.signatures import Signature, signature_named
from harness.histories.forms import Malformed, refuse_depth, refuse_value
from harness.histories.importing import Import, ImportedHistory, import_histories, listed
from harness.histories.json_texts import json_value
from harness.judging.spark import start_spark
from harness.judging.verdicts import FileVerdict, HeldTo, Refused
from harness.model import BadInput, Finding
from harness.model.errors import reason_of
from harness.model.plurals import counted
from harness.model.records.finding import most_severe_first, verdict_of
from harness.model.systems import Report

if TYPE_CHECKING:
    from checkers.imported import FileResults, Source

MEANWHILE: Final = ("checkers.imported", "harness.judging.check_reports")
"""What is imported while Java starts."""


def check_files(
    paths: Sequence[Path], held_to: HeldTo, master: str | None, report: Report, reports: Path | None = None
) -> Iterator[FileVerdict | Refused]:
    """Check every history at these paths, and write reports into a folder if one is given.

    Raises BadInput for an unknown model or initial value.
    """
    signature = signature_named(held_to.model)
    if held_to.initial is not None and not signature.takes_initial:
        raise BadInput(f"--initial {held_to.initial}: not supported: the initial state of a {signature.name} is fixed")
    initial = initial_json(held_to.initial, signature)
    found = listed(paths)
    if all(history.refusal for history in found):
        yield from refusals(found)
        return
    starting = start_spark(master, sum(history.size_bytes for history in found), MEANWHILE)
    report(f"reading {counted(len(found), 'file')} while Spark starts")
    with import_histories(found, signature.fs, held_to.skip_malformed) as imported:
        if not imported.accepted:
            yield from refusals(found)
            return
        report("waiting for Spark")
        spark = starting.result()
        # Imported only now: two threads that import PySpark at once get modules that are not complete.
        from checkers.framework.contract import JudgeSettings
        from checkers.imported import judge_files

        settings = JudgeSettings(semantics=held_to.semantics, initial=initial)
        numbers = [history.number for history in imported.accepted]
        report(f"checking {counted(len(numbers), 'file')}")
        judged = judge_files(spark, sources_of(imported), numbers, signature.name, settings)
        results = [result_of(history, judged, held_to) for history in found]
        yield from results if reports is None else reported(results, imported, held_to, reports, report)


def result_of(history: ImportedHistory, judged: Mapping[int, FileResults], held_to: HeldTo) -> FileVerdict | Refused:
    """The verdict on a history, or why there is none."""
    if history.refusal is not None:
        return Refused(str(history.path), history.refusal)
    return verdict_on(history, judged[history.number], held_to)


def reported(
    results: Sequence[FileVerdict | Refused], imported: Import, held_to: HeldTo, folder: Path, report: Report
) -> Iterator[FileVerdict | Refused]:
    """The results with their reports, which are written into this folder; a full disk costs no verdict."""
    from harness.judging.check_reports import CheckReports

    reports = CheckReports(folder, held_to, imported)
    for history, result in zip(imported.histories, results, strict=True):
        try:
            yield reports.write(history, result) if isinstance(result, FileVerdict) else reports.note(result)
        except OSError as error:
            report(f"no report: {error.filename or folder}: {reason_of(error)}")
            yield result
    with suppress(OSError):  # it is the reason why the last report is missing, too
        reports.finish()


def refusals(histories: Sequence[ImportedHistory]) -> Iterator[Refused]:
    """Why each of these histories is refused."""
    return (Refused(str(history.path), history.refusal) for history in histories if history.refusal)


def initial_json(text: str | None, signature: Signature) -> str | None:
    """The value as JSON text; a word is a string.

    Raises BadInput for a text that only begins like JSON, and for a value that the model cannot have.
    """
    if text is None or text in ("nil", "null"):
        return None
    try:
        is_word = text[:1].isalpha() and text not in ("true", "false", "NaN", "Infinity")
        value = text if is_word else json_value(text)
        refuse_depth(value)
        refuse_value({"type": "ok", "f": "read", "value": value}, signature.fs)
    except Malformed as error:
        raise BadInput(f"--initial {text[:60]}: {error}") from error
    return json.dumps(value)


def sources_of(imported: Import) -> list[Source]:
    """The tables to check."""
    from checkers.imported import Source

    own = [Source(history.tables, history.number) for history in imported.accepted if history.tables]
    return own if imported.common is None else [Source((imported.common,)), *own]


def verdict_on(history: ImportedHistory, results: FileResults, held_to: HeldTo) -> FileVerdict:
    """The verdict on one file, with findings for what could not be checked."""
    findings = list(results.findings)
    if history.malformed:
        skipped = f"{counted(history.malformed, 'malformed row')} skipped, the first at {history.first_malformed}"
        findings.append(Finding("import", "malformed-rows", "unknown", skipped, count=history.malformed))
    if not results.operations and not findings:
        message = f"no row of {history.rows} is an operation of a {held_to.model}"
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
