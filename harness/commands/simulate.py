"""`splitbrain simulate`: thousands of random runs on simulated nodes, or scenarios there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import plugins
from harness.commands.arguments import completed
from harness.commands.options import STORE, MasterOption, StoreOption, examples, prints
from harness.commands.output.console import Output, exit_code, print_json, print_verdict
from harness.commands.output.progress import progress
from harness.commands.output.tables import print_table
from harness.model import BadInput
from harness.model.plurals import counted
from harness.planning.options import takes
from harness.planning.plan import ReproductionRequest, checked
from harness.simulating.request import HOSTS, SimulationRequest
from results.run_verdict import RunVerdict

if TYPE_CHECKING:
    from harness.simulating.simulate import Search

Scenarios = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID…]",
        help="Scenarios to simulate, both sides; without one, random runs.",
        show_default=False,
        autocompletion=completed(lambda: plugins.names("scenarios")),
    ),
]

OF_SCENARIOS = {"system", "switch", "seeds", "seed", "at_once"}
"""The options that simulated scenarios have, too."""


@takes(SimulationRequest)
@prints(progress=True)
def simulate(
    values: Mapping[str, Any],
    output: Output,
    identifiers: Scenarios = None,
    store: StoreOption = STORE,
    master: MasterOption = None,
) -> None:
    """Simulate random runs under virtual time until one breaks a guarantee; or scenarios, once for each seed."""
    request = checked(SimulationRequest, values)
    if not identifiers:
        raise typer.Exit(exit_code(_random_runs(request, output, store, master)))
    for name in values.keys() - OF_SCENARIOS:
        raise BadInput(f"--{name.replace('_', '-')}: expected random runs, found scenarios")
    times = request.seeds if "seeds" in values else 1
    target = {"system": request.system, "switch": request.switches, "seed": request.seed, "hosts": HOSTS}
    reproduction = checked(ReproductionRequest, {**target, "times": times, "at_once": request.at_once})
    raise typer.Exit(exit_code(_scenarios(identifiers, reproduction, output, store, master)))


def _random_runs(request: SimulationRequest, output: Output, store: Path, master: str | None) -> list[RunVerdict]:
    from harness.simulating.simulate import Search

    verdicts: list[RunVerdict] = []
    with progress(output.verbosity) as on_event:
        search = Search(request, store, master, on_event)
        try:
            for directory, verdict in search.runs():
                verdicts.append(verdict)
                print_verdict(verdict, directory, output)
        except KeyboardInterrupt:
            _print_tally(search, output)
            raise
    _print_tally(search, output)
    return verdicts


def _print_tally(search: Search, output: Output) -> None:
    tally = search.tally
    if output.is_json:
        print_json(search.to_json())
        return
    passed = tally.runs - tally.failed
    print(f"{tally}\n{counted(passed, 'run')} passed, {tally.failed} did not.")
    if tally.reasons:
        headers = ("not passed", "runs", "first seed", "known defect")
        rows = [
            (name, str(each.runs), str(each.first_seed), search.known_defect(name) or "")
            for name, each in sorted(tally.reasons.items())
        ]
        shown = len(headers) if any(row[-1] for row in rows) else len(headers) - 1
        print_table(headers[:shown], [row[:shown] for row in rows])
    if search.unchecked:
        names = " ".join(str(run.path) for run in search.unchecked)
        print(f"{counted(len(search.unchecked), 'stored run')} not checked yet: splitbrain check {names}")


def _scenarios(
    identifiers: list[str], request: ReproductionRequest, output: Output, store: Path, master: str | None
) -> list[RunVerdict]:
    from harness.running.reproduce import reproduce_scenarios

    scenarios = [plugins.scenario(identifier) for identifier in identifiers]
    verdicts: list[RunVerdict] = []
    with progress(output.verbosity) as on_event:
        for directory, verdict in reproduce_scenarios(scenarios, request, store, master, on_event):
            verdicts.append(verdict)
            print_verdict(verdict, directory, output)
    return verdicts


def register(app: typer.Typer) -> None:
    """Add the command."""
    commands = ("splitbrain simulate", "splitbrain simulate PV-01", "splitbrain simulate --seeds 100000 --keep-going")
    app.command("simulate", epilog=examples(*commands))(simulate)
