"""`splitbrain check`, `export` and `report`: what can be done with runs and histories that are on disk."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.commands.console import exit_code, print_json, print_verdict
from harness.commands.options import Format, FormatOption, MasterOption
from harness.commands.progress import progress
from harness.model import BadInput
from harness.model.progress import phases

if TYPE_CHECKING:
    from harness.judging.imported import HeldTo


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


def check(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Run directories; with --model, histories.")],
    model: Annotated[str | None, typer.Option(help="Model for external histories, e.g. register.")] = None,
    semantics: SemanticsOption = None,
    initial: Annotated[str | None, typer.Option(help="Initial value of the model as JSON; nil by default.")] = None,
    skip_malformed: Annotated[bool, typer.Option("--skip-malformed", help="Count malformed rows and go on.")] = False,
    master: MasterOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Re-check stored runs, or check external histories against a model."""
    from harness.judging.imported import HeldTo
    from harness.judging.stored import check_paths

    if model is not None:
        held_to = HeldTo(model, (semantics or Semantics.STRICT).value, initial, skip_malformed)
        raise typer.Exit(_check_files(paths, held_to, master, output))
    if semantics or initial is not None or skip_malformed:
        raise BadInput("--semantics, --initial and --skip-malformed need --model, e.g. --model register")
    with progress() as on_event:
        checked = list(check_paths(paths, master, phases(on_event, "checks")))
    for directory, verdict in checked:
        print_verdict(verdict, directory, output)
    raise typer.Exit(exit_code([verdict for _, verdict in checked]))


def _check_files(paths: list[Path], held_to: HeldTo, master: str | None, output: Format) -> int:
    from harness.judging.imported import check_files

    with progress() as on_event:
        verdicts = list(check_files(paths, held_to, master, phases(on_event, "checks")))
    for verdict in verdicts:
        if output is Format.JSON:
            print_json(verdict.as_json())
        else:
            print(verdict.as_text())
    return exit_code(verdicts)


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    output: Annotated[ExportFormat, typer.Option("--format", help="edn or jsonl.")] = ExportFormat.EDN,
    independent: Annotated[bool, typer.Option("--independent", help="Values as [key value], as in Jepsen.")] = False,
) -> None:
    """Print a run's history for other checkers, one operation per line."""
    from harness.histories.exporting import export_lines

    for line in export_lines(run, output is ExportFormat.EDN, independent):
        print(line)


def report(path: Annotated[Path, typer.Argument(metavar="RUN", help="A checked run.")]) -> None:
    """Render a run's report again."""
    from harness.judging.stored import rewrite_report

    print(rewrite_report(path))


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("check")(check)
    app.command("export")(export)
    app.command("report")(report)
