"""`splitbrain nightly` and `nights`: scenarios and explorations within a budget, resumed after any interruption."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.commands.options import STORE, KnownOption, MasterOption, StoreOption, examples, prints
from harness.commands.output.console import EXIT_OF, Output, print_json
from harness.commands.output.progress import progress
from harness.commands.output.tables import print_table
from harness.model import BadInput, Verdict

if TYPE_CHECKING:
    from harness.judging.known import Known
    from harness.nightly.directory import NightDirectory

COUNTS = ("passed", "failed", "known", "unknown", "not run")


@prints(progress=True)
def nightly(
    output: Output,
    plan: Annotated[Path, typer.Argument(help="TOML file with the night's plan.", metavar="PLAN.toml")],
    new: Annotated[bool, typer.Option("--new", help="Begin a new night, also if one was interrupted.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Only resume; do nothing if none was interrupted.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the jobs, and run nothing.")] = False,
    known: KnownOption = None,
    store: StoreOption = STORE,
    master: MasterOption = None,
) -> None:
    """Run a night: scenarios and explorations on several systems, within a budget. Resumes one that was interrupted."""
    from harness.judging.known import read_known
    from harness.nightly.directory import new_night, unfinished_night
    from harness.nightly.plan import cells_of, jobs_of, read_night_plan
    from harness.running.run import new_seed

    if new and resume:
        raise BadInput("--new and --resume: expected one of both")
    asked, entries = read_night_plan(plan), read_known(known, datetime.now(UTC).date())
    settled = asked.model_copy(update={"seed": new_seed() if asked.seed is None else asked.seed})
    if dry_run:
        for job in jobs_of(cells_of(settled), settled.seed or 0)[: settled.runs]:
            print_json({"job": job.id}) if output.is_json else print(job.id)
        return
    document = asked.model_dump(mode="json")
    interrupted = None if new else unfinished_night(store, document)
    if resume and interrupted is None:
        print_json({"resumed": None}) if output.is_json else print("nothing to resume")
        return
    directory = interrupted or new_night(store, settled, document, datetime.now(UTC))
    store_flag = [] if store == STORE else ["--store", str(store)]
    command = shlex.join(["splitbrain", "nightly", str(plan), *store_flag])
    raise typer.Exit(EXIT_OF[_play(directory, store, master, command, entries, output)])


def _play(
    directory: NightDirectory, store: Path, master: str | None, command: str, known: Known, output: Output
) -> Verdict:
    """Carry the night out, print its results as they come, and then its summary, which is written in any case."""
    from harness.nightly.night import Night
    from harness.nightly.retention import keep_store
    from harness.nightly.summary import summary_of, write_summary
    from results.night_summary import text

    with progress(output.verbosity) as on_event:
        try:
            for result in Night(directory, store, master, on_event).results():
                print_json(result.to_json()) if output.is_json else print(result.line, flush=True)
        finally:
            if directory.ledger.exists():
                summary = summary_of(directory, store, command, known.outcome_of)
                write_summary(directory, summary)
    if output.is_json:
        print_json(summary.to_json())
    else:
        print(f"\n{text(summary)}\n\nSummary: {directory.path / 'summary.html'}")
    for row in keep_store(store, directory.plan().keep, datetime.now(UTC)):
        print_json({"removed": row.run}) if output.is_json else print(f"removed: {row.run}")
    return summary.verdict


@prints()
def nights(output: Output, store: StoreOption = STORE) -> None:
    """List the nights, oldest first."""
    from harness.nightly.directory import nights as stored_nights
    from harness.nightly.summary import stored_summary

    rows = []
    for night in stored_nights(store):
        summary = stored_summary(night)
        counts = summary.get("counts", {})
        if output.is_json:
            print_json({"night": night.name, "verdict": summary.get("verdict", "-"), "counts": counts})
        verdict = summary.get("verdict", "-") if night.is_finished else "not finished"
        numbers = (str(counts.get(name, 0)) for name in COUNTS)
        rows.append((night.name, verdict, *numbers, str(night.path / "summary.html")))
    if not output.is_json:
        print_table(("night", "verdict", *COUNTS, "summary"), rows)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("nightly", epilog=examples("splitbrain nightly nightly.toml"))(nightly)
    app.command("nights", epilog=examples("splitbrain nights"))(nights)
