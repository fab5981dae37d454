"""`splitbrain runs` and `splitbrain heal`: the store of runs, and what crashed runs left behind."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from harness.commands.arguments import run_path
from harness.commands.options import STORE, StoreOption, examples, prints
from harness.commands.output.console import Output, print_json
from harness.commands.output.tables import print_table
from harness.judging.index import RunRow
from harness.judging.listing import RunFilter, listed
from harness.model import BadInput
from harness.recovery.heal import heal_store
from results.store import RunDirectory, is_run, require_store


@prints()
def runs(
    output: Output,
    store: StoreOption = STORE,
    system: Annotated[str | None, typer.Option(help="Only this system, with or without its version.")] = None,
    workload: Annotated[str | None, typer.Option(help="Only this workload, or this scenario.")] = None,
    fault: Annotated[str | None, typer.Option(help="Only runs with this fault.")] = None,
    verdict: Annotated[str | None, typer.Option(help="Only this verdict: valid, invalid or unknown.")] = None,
    status: Annotated[str | None, typer.Option(help="Only this status, e.g. judged, interrupted, damaged.")] = None,
    night: Annotated[str | None, typer.Option(help="Only runs of this night.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most the newest N.", metavar="N")] = None,
    reviewed: Annotated[
        list[str] | None, typer.Option(help="Mark a failed run as reviewed: it may be removed then.", metavar="RUN")
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Remove runs that the following options do not keep.")] = False,
    keep_days: Annotated[float | None, typer.Option(min=0, help="Keep runs that are younger.", metavar="DAYS")] = None,
    keep_runs: Annotated[int | None, typer.Option(min=0, help="Keep the newest N.", metavar="N")] = None,
    keep_gib: Annotated[
        float | None, typer.Option(min=0, help="Keep the newest that take so much.", metavar="GIB")
    ] = None,
) -> None:
    """List the stored runs, oldest first; or remove old ones. Failed runs are kept until they are reviewed."""
    if reviewed:
        _review([run_path(run, store) for run in reviewed])
        return
    keep = {
        name: value
        for name, value in (("days", keep_days), ("runs", keep_runs), ("gib", keep_gib))
        if value is not None
    }
    if prune or keep:
        _prune(_existing(store), keep, prune, output)
        return
    rows = listed(_existing(store), RunFilter(system, workload, fault, verdict, status, night, limit))
    if output.is_json:
        for row in rows:
            print_json({name: value for name, value in asdict(row).items() if name != "stamp"})
    else:
        print_table(("run", "system", "workload", "faults", "seconds", "status", "verdict"), map(_cells, rows))
        for row in rows:
            if row.damage:
                print(f"damaged: {row.run}: {row.damage}")


def _review(paths: list[Path]) -> None:
    """Mark the runs, or none of them. Raises BadInput for a folder that is no run."""
    from harness.nightly.retention import review

    for path in paths:
        if not is_run(path):
            raise BadInput(f"--reviewed: expected a stored run, found {path.absolute()}, which has no files of a run")
    for path in paths:
        review(RunDirectory(path), datetime.now(UTC))
        print(f"reviewed: {path.name}")


def _prune(store: Path, values: dict[str, float], is_asked: bool, output: Output) -> None:
    """Remove the runs that are not to be kept. Raises BadInput if only one of both was asked."""
    from harness.nightly.plan import Keep
    from harness.nightly.retention import keep_store

    if not (is_asked and values):
        raise BadInput("--prune: expected it together with --keep-days, --keep-runs or --keep-gib")
    removed = keep_store(store, Keep.model_validate(values), datetime.now(UTC))
    for row in removed:
        print_json({"removed": row.run}) if output.is_json else print(f"removed: {row.run}")
    if not removed and not output.is_json:
        print("nothing to remove")


def _existing(store: Path) -> Path:
    """The store, which may be missing only if the user has not named it. Raises BadInput."""
    if store != STORE or store.exists():
        require_store(store)
    return store


def _cells(row: RunRow) -> tuple[str, ...]:
    seconds = "-" if row.seconds is None else f"{row.seconds:.0f}"
    faults = "-" if row.faults is None else ",".join(row.faults) or "none"
    return row.run, row.system, row.scenario or row.workload, faults, seconds, row.status, row.verdict


@prints()
def heal(output: Output, store: StoreOption = STORE) -> None:
    """Clean up after crashed runs. Safe at any time."""
    for line in heal_store(_existing(store)):
        print_json({"healed": line}) if output.is_json else print(line)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("runs", epilog=examples("splitbrain runs --system kafka --verdict invalid --limit 10"))(runs)
    app.command("heal", epilog=examples("splitbrain heal"))(heal)
