"""`splitbrain run`: one workload under a schedule of faults, checked afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.commands.options import STORE, DryRunOption, MasterOption, StoreOption, examples, prints
from harness.commands.output.console import Output, exit_code, print_verdict
from harness.commands.output.progress import progress
from harness.planning.options import takes
from harness.planning.plan import PLAN_FILE_ONLY, Request, checked, read_request


@takes(Request, but=PLAN_FILE_ONLY)
@prints(progress=True)
def run(
    values: Mapping[str, Any],
    output: Output,
    plan: Annotated[Path | None, typer.Option(help="Plan file in TOML; flags take precedence.")] = None,
    store: StoreOption = STORE,
    master: MasterOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Run a workload under a schedule of faults, and check it."""
    from harness.running.run import plan_to_run, run_request

    request = read_request(plan, values) if plan else checked(Request, values)
    with progress(output.verbosity) as on_event:
        if dry_run:
            settled = plan_to_run(request, on_event)
        else:
            directory, verdict = run_request(request, store, master, on_event)
    if dry_run:
        print(settled.as_json(), end="")
        return
    print_verdict(verdict, directory, output)
    raise typer.Exit(exit_code([verdict]))


def register(app: typer.Typer) -> None:
    """Add the command."""
    commands = (
        "splitbrain run --workload register --faults partition,kill --time-limit 30",
        "splitbrain run --system kafka:4.3.1 --layout combined --workload log --faults kill,pause",
    )
    app.command("run", epilog=examples(*commands))(run)
