"""`splitbrain explore`: random runs until one shows a broken guarantee. `splitbrain coverage`: what runs reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from harness.commands.options import STORE, MasterOption, StoreOption, examples, prints
from harness.commands.output.console import Output, exit_code, print_json, print_verdict
from harness.commands.output.progress import progress
from harness.exploration.coverage import Coverage, lines_of
from harness.exploration.drawing import described, possible_moves
from harness.exploration.reached import coverage_of_store
from harness.exploration.request import ExplorationRequest
from harness.model import Verdict
from harness.model.plurals import counted
from harness.planning.options import takes
from harness.planning.plan import Plan, checked
from nemesis.moves import MOVES
from results.run_verdict import RunVerdict
from results.store import require_store


@takes(ExplorationRequest)
@prints(progress=True)
def explore(values: Mapping[str, Any], output: Output, store: StoreOption = STORE, master: MasterOption = None) -> None:
    """Draw runs at random and check them, until one shows a broken guarantee or the time is over."""
    from harness.exploration.explore import explore as explored

    request = checked(ExplorationRequest, values)
    verdicts: list[RunVerdict] = []
    reached = Coverage()
    with progress(output.verbosity) as on_event:
        for directory, verdict, coverage_of_run in explored(request, store, master, on_event):
            verdicts.append(verdict)
            reached += coverage_of_run
            if output.is_json or verdict.verdict is Verdict.INVALID:
                print_verdict(verdict, directory, output)
                if not output.is_json:
                    print(f"Reduce with: splitbrain shrink {directory.path}", flush=True)
            else:
                drawn = described(Plan.read(directory.plan)) if directory.plan.exists() else directory.name
                reason = f"; {verdict.summary}" if verdict.verdict is Verdict.UNKNOWN else ""
                print(f"{verdict.verdict.value}: {drawn}{reason}", flush=True)
    if output.is_json:
        print_json({"runs": len(verdicts), **_tally(verdicts), "coverage": reached.to_json()})
    else:
        tally = ", ".join(f"{number} {name}" for name, number in _tally(verdicts).items())
        print(f"{counted(len(verdicts), 'run')}: {tally}", *lines_of(reached, possible_moves(request)), sep="\n")
    raise typer.Exit(exit_code(verdicts))


def _tally(verdicts: list[RunVerdict]) -> dict[str, int]:
    counts = Counter(verdict.verdict for verdict in verdicts)
    return {verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]}


@prints()
def coverage(
    output: Output,
    store: StoreOption = STORE,
    system: Annotated[str | None, typer.Option(help="Only runs of this system, e.g. kafka:4.3.1.")] = None,
) -> None:
    """Show what the checked runs of a store have reached together, and what none has."""
    require_store(store)
    reached = coverage_of_store(store, system)
    if output.is_json:
        print_json(reached.to_json())
    else:
        print(counted(reached.runs, "run"), *lines_of(reached, MOVES), sep="\n")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = ("splitbrain explore", "splitbrain explore --system kafka:4.3.1 --time-limit 2700 --keep-going")
    app.command("explore", epilog=examples(*commands))(explore)
    app.command("coverage", epilog=examples("splitbrain coverage --system kafka:4.3.1"))(coverage)
