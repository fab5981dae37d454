"""`splitbrain reproduce ID…`: both sides of a scenario, judged together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from harness import plugins
from harness.commands.arguments import ScenarioArguments
from harness.commands.options import STORE, DryRunOption, MasterOption, StoreOption, examples, prints
from harness.commands.output.console import Output, exit_code, print_verdict
from harness.commands.output.progress import progress
from harness.planning.options import takes
from harness.planning.plan import ReproductionRequest, checked


@takes(ReproductionRequest)
@prints(progress=True)
def reproduce(
    values: Mapping[str, Any],
    identifiers: ScenarioArguments,
    output: Output,
    store: StoreOption = STORE,
    master: MasterOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Run scenarios: the anomaly must appear on the bad side and not on the good side."""
    from harness.running.reproduce import plans_to_run, reproduce_scenarios

    scenarios = [plugins.scenario(identifier) for identifier in identifiers]
    request = checked(ReproductionRequest, values)
    if dry_run:
        with progress(output.verbosity) as on_event:
            plans = [plan for each in scenarios for plan in plans_to_run(each, request, on_event)]
        print("".join(plan.as_json() for plan in plans), end="")
        return
    with progress(output.verbosity) as on_event:
        reproduced = list(reproduce_scenarios(scenarios, request, store, master, on_event))
    for directory, verdict in reproduced:
        print_verdict(verdict, directory, output)
    raise typer.Exit(exit_code([verdict for _, verdict in reproduced]))


def register(app: typer.Typer) -> None:
    """Add the command."""
    commands = ("splitbrain reproduce PV-01", "splitbrain reproduce PV-01 --system kafka --times 5")
    app.command("reproduce", epilog=examples(*commands))(reproduce)
