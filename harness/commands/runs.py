"""`splitbrain runs` and `splitbrain heal`: the store of runs, and what crashed runs left behind."""

from __future__ import annotations

import typer
from tabulate import tabulate

from harness.commands.console import print_json
from harness.commands.options import STORE, Format, FormatOption, StoreOption
from harness.recovery.heal import heal_store
from results.run_verdict import read_verdict
from results.store import RunDirectory
from results.store import runs as stored_runs


def runs(store: StoreOption = STORE, output: FormatOption = Format.TEXT) -> None:
    """List the stored runs."""
    rows = [_row(run) for run in stored_runs(store)]
    if output is Format.JSON:
        for row in rows:
            print_json(row)
    else:
        print(tabulate([row.values() for row in rows], headers=("run", "kind", "status", "verdict")))


def heal(store: StoreOption = STORE) -> None:
    """Clean up after crashed runs. Safe at any time."""
    for line in heal_store(store):
        print(line)


def _row(run: RunDirectory) -> dict[str, str]:
    verdict = read_verdict(run.verdict).verdict.value if run.verdict.exists() else "-"
    return {"run": run.name, "kind": run.kind, "status": run.status, "verdict": verdict}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("runs")(runs)
    app.command("heal")(heal)
