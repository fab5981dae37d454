"""`splitbrain replay` and `shrink`: a stored run again, as it was or as small as it goes."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.commands.arguments import RunArgument, run_path
from harness.commands.options import STORE, MasterOption, StoreOption, examples, prints
from harness.commands.output.console import Output, exit_code, print_json
from harness.commands.output.progress import progress
from harness.commands.output.tables import print_table
from harness.model.errors import EXIT_UNKNOWN, EXIT_VALID
from results.store import RunDirectory


@prints(progress=True)
def replay(
    output: Output,
    run: RunArgument,
    on_processes: Annotated[
        bool, typer.Option("--on-processes", help="Play a simulated run on real processes.")
    ] = False,
    store: StoreOption = STORE,
    master: MasterOption = None,
) -> None:
    """Play a run's plan again, and show where the two runs differ. Exits with the new run's verdict."""
    from harness.replaying.replay import replay as replayed

    with progress(output.verbosity) as on_event:
        result = replayed(run_path(run, store), store, master, on_event, on_processes)
    if output.is_json:
        print_json(result.to_json())
    else:
        print(f"{result.verdict.name}: {result.verdict.verdict.value.upper()}. {result.verdict.summary}\n")
        rows = [(each.what, each.before, each.now) for each in (*result.differences, *result.quantities)]
        print_table(("what", "before", "now"), rows)
        same = "" if result.differences else "Same faults, leaders, verdict and findings. "
        print(f"\n{same}Report: {result.now.report}")
    raise typer.Exit(exit_code([result.verdict]))


@prints(progress=True)
def shrink(
    output: Output,
    run: RunArgument,
    finding: Annotated[str | None, typer.Option(help="Finding to keep; the run's first by default.")] = None,
    time_limit: Annotated[float, typer.Option(min=1, help="Time for all attempts in seconds.", metavar="S")] = 1800.0,
    at_once: Annotated[
        int | None, typer.Option(min=1, max=64, help="Runs at a time; as many as the machine allows if not given.")
    ] = None,
    store: StoreOption = STORE,
    master: MasterOption = None,
) -> None:
    """Reduce a failing run to the smallest story, cluster and load that show the same finding. Resumes if repeated."""
    from harness.replaying.shrink import Shrinking
    from harness.replaying.shrunk import size_of

    with progress(output.verbosity) as on_event:
        directory = RunDirectory(run_path(run, store).absolute())
        result = Shrinking(directory, finding, time_limit, at_once, master, on_event).shrink()
    if output.is_json:
        print_json(result.to_json())
    else:
        before, after = size_of(result.original), size_of(result.plan)
        print(f"{result.finding}: {result.text}")
        print_table(("", "before", "after"), [(name, f"{before[name]:g}", f"{after[name]:g}") for name in before])
        print(f"\nPlay it:  splitbrain run --plan {result.folder / 'plan.toml'}")
        print(f"Scenario: {result.folder / 'scenario.py'}\nSummary:  {result.folder / 'summary.md'}")
        print(f"Report:   {result.failing.report}")
    raise typer.Exit(EXIT_VALID if result.is_confirmed else EXIT_UNKNOWN)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    shown = examples("splitbrain replay latest", "splitbrain replay latest --on-processes")
    app.command("replay", epilog=shown)(replay)
    app.command("shrink", epilog=examples("splitbrain shrink latest-failed --time-limit 1800"))(shrink)
