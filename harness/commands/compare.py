"""`splitbrain compare` and `baseline`: what got worse between two sets of stored runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from harness.commands.options import STORE, KnownOption, MasterOption, StoreOption, examples, prints
from harness.commands.output.console import EXIT_OF, Output, print_json
from harness.commands.output.progress import progress
from harness.commands.output.tables import print_table
from harness.judging.spark import QUERIES, start_spark
from harness.model.errors import BadInput, reason_of
from harness.model.plurals import counted
from harness.model.progress import phases
from results.store import require_store

SET_HELP = (
    "A night, run, baseline or date (2026-11-20, 2026-11-14..2026-11-20), latest or previous; several with commas."
)


@prints(progress=True)
def compare(
    output: Output,
    base: Annotated[str, typer.Argument(help=SET_HELP, metavar="BASE")],
    head: Annotated[str, typer.Argument(help="The same, for what is judged.", metavar="HEAD")],
    known: KnownOption = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write it as Markdown, for a pull request.", metavar="FILE")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write it as JUnit XML.", metavar="FILE")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write it as one HTML page that works offline.", metavar="FILE")
    ] = None,
    store: StoreOption = STORE,
    master: MasterOption = None,
) -> None:
    """Compare two sets of runs: what fails newly, what no longer does, what takes longer, and what may be chance."""
    require_store(store)
    starting = start_spark(master, meanwhile=QUERIES)

    from harness.comparing.report import compare_words, comparison_page
    from harness.judging.known import read_known
    from results import comparison_report
    from results.files import write_text

    entries = read_known(known, datetime.now(UTC).date())
    with progress(output.verbosity) as on_event:
        comparison = compare_words(base, head, store, entries, starting, phases(on_event, "checks"))
        for path, content in (
            (markdown, lambda: comparison_report.markdown(comparison)),
            (junit, lambda: comparison_report.junit(comparison)),
            (html, lambda: comparison_page(comparison, store)),
        ):
            if path is not None:
                try:
                    write_text(path, content())
                except OSError as error:
                    raise BadInput(f"{path}: expected a file that can be written: {reason_of(error)}") from error
    print_json(comparison.to_json()) if output.is_json else print(comparison_report.text(comparison))
    raise typer.Exit(EXIT_OF[comparison.verdict])


baseline_app = typer.Typer(no_args_is_help=True, help="Name sets of runs, to compare others with.")


@prints()
def set_(
    output: Output,
    name: Annotated[str, typer.Argument(help="Name of the baseline, e.g. release-4.3.")],
    runs: Annotated[list[str], typer.Argument(help=SET_HELP, metavar="RUNS…")],
    store: StoreOption = STORE,
) -> None:
    """Name a set of runs; a baseline of this name is replaced. Its runs are not pruned."""
    from harness.comparing.selection import set_baseline

    names = set_baseline(name, runs, store)
    print_json({"baseline": name, "runs": names}) if output.is_json else print(f"{name}: {counted(len(names), 'run')}")


@prints()
def list_(output: Output, store: StoreOption = STORE) -> None:
    """List the baselines."""
    from harness.judging.baselines import stored_baselines

    baselines = stored_baselines(store)
    if output.is_json:
        for name, runs in baselines.items():
            print_json({"baseline": name, "runs": runs})
    else:
        print_table(("baseline", "runs"), [(name, str(len(runs))) for name, runs in baselines.items()])


def remove(
    name: Annotated[str, typer.Argument(help="Name of the baseline.")],
    store: StoreOption = STORE,
) -> None:
    """Forget a baseline; its runs stay."""
    from harness.judging.baselines import remove_baseline

    remove_baseline(name, store)
    print(f"removed: {name}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = ("splitbrain compare previous latest", "splitbrain compare release-4.3 latest --html comparison.html")
    app.command("compare", epilog=examples(*commands))(compare)
    baseline_app.command("set", epilog=examples("splitbrain baseline set release-4.3 latest"))(set_)
    baseline_app.command("list", epilog=examples("splitbrain baseline list"))(list_)
    baseline_app.command("remove", epilog=examples("splitbrain baseline remove release-4.3"))(remove)
    app.add_typer(baseline_app, name="baseline")
