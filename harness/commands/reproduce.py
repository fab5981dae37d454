"""`splitbrain reproduce ID…`: both sides of a scenario, judged together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from harness import plugins
from harness.commands.console import exit_code, print_verdict
from harness.commands.options import STORE, Format, FormatOption, MasterOption, StoreOption
from harness.commands.progress import progress
from harness.planning.options import takes
from harness.planning.plan import ReproductionRequest, checked


@takes(ReproductionRequest)
def reproduce(
    values: Mapping[str, Any],
    identifiers: Annotated[list[str], typer.Argument(metavar="ID…", help="Scenarios, e.g. PV-01.")],
    store: StoreOption = STORE,
    master: MasterOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Run scenarios: the anomaly must appear on the bad side and not on the good side."""
    from harness.running.reproduce import reproduce_scenario

    scenarios = [plugins.scenario(identifier) for identifier in identifiers]
    request = checked(ReproductionRequest, values)
    verdicts = []
    for scenario in scenarios:
        with progress() as on_event:
            directory, verdict = reproduce_scenario(scenario, request, store, master, on_event)
        print_verdict(verdict, directory, output)
        verdicts.append(verdict)
    raise typer.Exit(exit_code(verdicts))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reproduce")(reproduce)
