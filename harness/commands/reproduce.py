"""`splitbrain reproduce ID…`: both sides of a scenario, judged together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from harness import plugins
from harness.commands.arguments import ScenarioArguments
from harness.commands.options import STORE, DryRunOption, MasterOption, StoreOption, examples, prints
from harness.commands.output.console import (
    Output,
    exit_code,
    exit_code_of_comparison,
    print_comparison,
    print_verdict,
)
from harness.commands.output.progress import progress
from harness.planning.options import takes
from harness.planning.plan import Plan, ReproductionRequest, checked
from results.comparison_table import Judged, compared
from results.run_verdict import RunVerdict, read_verdict
from results.store import RunDirectory


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
    from harness.running.each_value import compare_values, plans_of_values
    from harness.running.reproduce import plans_to_run, reproduce_scenarios

    scenarios = [plugins.scenario(identifier) for identifier in identifiers]
    request = checked(ReproductionRequest, values)
    if dry_run:
        planned = plans_to_run if request.each is None else plans_of_values
        with progress(output.verbosity) as on_event:
            plans = [plan for each in scenarios for plan in planned(each, request, on_event)]
        print("".join(plan.as_json() for plan in plans), end="")
        return
    played = reproduce_scenarios if request.each is None else compare_values
    with progress(output.verbosity) as on_event:
        reproduced = list(played(scenarios, request, store, master, on_event))
    if request.each is None:
        for directory, verdict in reproduced:
            print_verdict(verdict, directory, output)
    if request.each is not None or not output.is_json:  # without --each, each line of JSON is a verdict
        print_comparison(compared(_runs(reproduced)), output)
    verdicts = [verdict for _, verdict in reproduced]
    raise typer.Exit(exit_code(verdicts) if request.each is None else exit_code_of_comparison(verdicts))


def _runs(reproduced: Sequence[tuple[RunDirectory, RunVerdict]]) -> list[Judged]:
    """The runs of reproductions, and runs that are none, with their switches."""
    runs: list[Judged] = []
    for directory, verdict in reproduced:
        judged = [(side, read_verdict(side.verdict)) for side in directory.sides()] or [(directory, verdict)]
        for run, of_run in judged:
            plan = Plan.read(run.plan)
            name = f"{plan.name} {plan.side}" if plan.side else plan.name
            runs.append((name, plan.switches, run, of_run))
    return runs


def register(app: typer.Typer) -> None:
    """Add the command."""
    commands = (
        "splitbrain reproduce PV-01",
        "splitbrain reproduce PV-01 --system kafka --times 5",
        "splitbrain reproduce LD-01 LD-02 LD-03 --each reference.truncation",
    )
    app.command("reproduce", epilog=examples(*commands))(reproduce)
