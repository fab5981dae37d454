"""`splitbrain run`: one workload under a schedule of faults, checked afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.commands.console import exit_code, print_verdict
from harness.commands.options import STORE, Format, FormatOption, MasterOption, StoreOption
from harness.commands.progress import progress
from harness.planning.options import takes
from harness.planning.plan import Request, checked, read_request


@takes(Request, but=("story",))
def run(
    values: Mapping[str, Any],
    plan: Annotated[Path | None, typer.Option(help="Plan file in TOML; flags take precedence.")] = None,
    store: StoreOption = STORE,
    master: MasterOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Run a workload under a schedule of faults, and check it."""
    from harness.running.run import run_request

    request = read_request(plan, values) if plan else checked(Request, values)
    with progress() as on_event:
        directory, verdict = run_request(request, store, master, on_event)
    print_verdict(verdict, directory, output)
    raise typer.Exit(exit_code([verdict]))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)
