"""`splitbrain check`, `export` and `report`: what can be done with runs and histories that are on disk."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.commands.arguments import RunArgument, RunsOrHistories, is_store, run_path
from harness.commands.options import STORE, MasterOption, StoreOption, examples, prints
from harness.commands.output.console import Output, exit_code, print_error, print_json, print_verdict
from harness.commands.output.progress import progress
from harness.commands.output.tables import print_table
from harness.model import BadInput
from harness.model.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_USAGE, EXIT_VALID
from harness.model.plurals import counted
from harness.model.progress import phases

if TYPE_CHECKING:
    from harness.judging.store_check import JudgedAgain
    from harness.judging.verdicts import HeldTo


class Semantics(Enum):
    """What a nil read and a failed compare-and-set mean: observations, or nothing."""

    STRICT = "strict"
    KNOSSOS = "knossos"


class ExportFormat(Enum):
    """The text form of an exported history."""

    EDN = "edn"
    JSONL = "jsonl"


SemanticsOption = Annotated[
    Semantics | None, typer.Option(help="Meaning of a nil read and a failed cas; strict by default.")
]

ReportOption = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Where reports on histories go; a new folder beside the store by default."),
]


@prints(progress=True)
def check(
    output: Output,
    runs: RunsOrHistories,
    model: Annotated[str | None, typer.Option(help="Model for external histories, e.g. register.")] = None,
    semantics: SemanticsOption = None,
    initial: Annotated[str | None, typer.Option(help="Initial value of the model as JSON; nil by default.")] = None,
    skip_malformed: Annotated[bool, typer.Option("--skip-malformed", help="Count malformed rows and go on.")] = False,
    report: ReportOption = None,
    write: Annotated[
        bool, typer.Option("--write", help="Replace the verdicts of a store's runs by the new ones.")
    ] = False,
    master: MasterOption = None,
    store: StoreOption = STORE,
) -> None:
    """Re-check stored runs or a whole store, or check external histories against a model."""
    from harness.judging.stored import check_paths
    from harness.judging.verdicts import HeldTo

    if model is not None:
        held_to = HeldTo(model, (semantics or Semantics.STRICT).value, initial, skip_malformed)
        files = [Path(run) for run in runs]
        raise typer.Exit(_check_files(files, held_to, master, _report_folder(report, files, store, output), output))
    if semantics or initial is not None or skip_malformed or report:
        raise BadInput("--semantics, --initial, --skip-malformed and --report need --model, e.g. --model register")
    paths = [run_path(run, store) for run in runs]
    if is_store(paths):
        raise typer.Exit(_check_store(paths[0], write, master, output))
    if write:
        raise BadInput("--write: expected a store, e.g. results/runs; the verdict of a single run is always replaced")
    with progress(output.verbosity) as on_event:
        checked = list(check_paths(paths, master, phases(on_event, "checks")))
    for directory, verdict in checked:
        print_verdict(verdict, directory, output)
    raise typer.Exit(exit_code([verdict for _, verdict in checked]))


def _check_store(store: Path, is_written: bool, master: str | None, output: Output) -> int:
    """Judge a store's runs, and print what changed; exit 1 if a run fails now that did not, 2 if one is unknown now."""
    from harness.judging.store_check import judge_store

    judged: list[JudgedAgain] = []
    with progress(output.verbosity) as on_event:
        for each in judge_store(store, is_written, master, phases(on_event, "checks")):
            judged.append(each)
            if output.is_json:
                print_json(_as_json(each))
    changed = [each for each in judged if each.is_changed]
    if not output.is_json:
        _print_changes(judged, changed, is_written)
    outcomes = {each.now.outcome for each in changed if each.now and each.now.outcome != each.before.outcome}
    return EXIT_INVALID if "failed" in outcomes else EXIT_UNKNOWN if "unknown" in outcomes else EXIT_VALID


def _as_json(each: JudgedAgain) -> dict[str, Any]:
    before, now = ({"verdict": row.verdict, "outcome": row.outcome} if row else None for row in (each.before, each.now))
    changes = {"is_changed": each.is_changed, "gained": each.gained, "lost": each.lost}
    return {"run": each.run, "before": before, "now": now, **changes, "problem": each.problem}


def _print_changes(judged: list[JudgedAgain], changed: list[JudgedAgain], is_written: bool) -> None:
    unreadable = [each for each in judged if each.now is None]
    same = len(judged) - len(changed) - len(unreadable)
    skipped = f", {len(unreadable)} not judged" if unreadable else ""
    print(f"{counted(len(judged), 'run')}: {same} as before, {len(changed)} changed{skipped}")
    if changed:
        print_table(("run", "case", "system", "before", "now", "gained", "lost"), map(_change_cells, changed))
    for each in unreadable:
        print(f"not judged: {each.run}: {each.problem}")
    if changed and not is_written:
        print("The stored verdicts are as before; --write replaces them.")


def _change_cells(each: JudgedAgain) -> tuple[str, ...]:
    before, now = (row.outcome or row.status if row else "-" for row in (each.before, each.now))
    return each.run, each.before.case, each.before.system, before, now, ", ".join(each.gained), ", ".join(each.lost)


def _report_folder(given: Path | None, paths: list[Path], store: Path, output: Output) -> Path | None:
    """The folder for reports; None for a history that comes and whose verdict goes through a pipe."""
    from harness.judging.check_folders import new_folder, refuse_folder

    if given is not None:
        refuse_folder(given)
        return given
    if output.is_json and paths == [Path("-")]:
        return None
    return new_folder(store, paths, datetime.now(UTC))


def _check_files(paths: list[Path], held_to: HeldTo, master: str | None, reports: Path | None, output: Output) -> int:
    from harness.judging.imported import FileVerdict, check_files

    with progress(output.verbosity) as on_event:
        checked = list(check_files(paths, held_to, master, phases(on_event, "checks"), reports))
    for each in checked:
        if output.is_json:
            print_json(each.as_json())
        elif isinstance(each, FileVerdict):
            print(each.as_text(), flush=True)
        if not isinstance(each, FileVerdict):
            print_error(each.error)
    verdicts = [each for each in checked if isinstance(each, FileVerdict)]
    if not output.is_json and any(each.report for each in verdicts):
        print(f"\nReport: {reports}/report.html")
    return exit_code(verdicts) if len(verdicts) == len(checked) else EXIT_USAGE


def export(
    run: RunArgument,
    history_format: Annotated[ExportFormat, typer.Option("--format", help="edn or jsonl.")] = ExportFormat.EDN,
    independent: Annotated[bool, typer.Option("--independent", help="Values as [key value], as in Jepsen.")] = False,
    store: StoreOption = STORE,
) -> None:
    """Print a run's history for other checkers, one operation per line."""
    from harness.histories.exporting import export_lines

    for line in export_lines(run_path(run, store), history_format is ExportFormat.EDN, independent):
        print(line)


@prints()
def report(output: Output, run: RunArgument, store: StoreOption = STORE) -> None:
    """Render a run's report again."""
    from harness.judging.stored import rewrite_report

    path = rewrite_report(run_path(run, store))
    print_json({"report": str(path)}) if output.is_json else print(path)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    checks = (
        "splitbrain check latest",
        "splitbrain check results/runs",
        "splitbrain check --model register history.edn",
    )
    app.command("check", epilog=examples(*checks))(check)
    app.command("export", epilog=examples("splitbrain export latest --format jsonl"))(export)
    app.command("report", epilog=examples("splitbrain report latest"))(report)
