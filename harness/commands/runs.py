"""`splitbrain runs` and `splitbrain heal`: the store of runs, and what crashed runs left behind."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from harness.commands.options import STORE, StoreOption, examples, prints
from harness.commands.output.console import Output, print_json
from harness.commands.output.tables import print_table
from harness.judging.listing import RunFilter, RunRow, listed
from harness.recovery.heal import heal_store


@prints()
def runs(
    output: Output,
    store: StoreOption = STORE,
    system: Annotated[str | None, typer.Option(help="Only this system, with or without its version.")] = None,
    workload: Annotated[str | None, typer.Option(help="Only this workload, or this scenario.")] = None,
    fault: Annotated[str | None, typer.Option(help="Only runs with this fault.")] = None,
    verdict: Annotated[str | None, typer.Option(help="Only this verdict: valid, invalid or unknown.")] = None,
    status: Annotated[str | None, typer.Option(help="Only this status, e.g. judged, interrupted, damaged.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most the newest N.", metavar="N")] = None,
) -> None:
    """List the stored runs, oldest first."""
    rows = listed(store, RunFilter(system, workload, fault, verdict, status, limit))
    if output.is_json:
        for row in rows:
            print_json(asdict(row))
    else:
        print_table(("run", "system", "workload", "faults", "seconds", "status", "verdict"), map(_cells, rows))


def _cells(row: RunRow) -> tuple[str, ...]:
    seconds = "-" if row.seconds is None else f"{row.seconds:.0f}"
    return row.run, row.system, row.workload, row.faults, seconds, row.status, row.verdict


@prints()
def heal(output: Output, store: StoreOption = STORE) -> None:
    """Clean up after crashed runs. Safe at any time."""
    for line in heal_store(store):
        print_json({"healed": line}) if output.is_json else print(line)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("runs", epilog=examples("splitbrain runs --system kafka --verdict invalid --limit 10"))(runs)
    app.command("heal", epilog=examples("splitbrain heal"))(heal)
