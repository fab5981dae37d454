"""`splitbrain workloads` and `splitbrain switches`: what --workload, --option and --switch accept."""

from __future__ import annotations

from typing import Annotated

import typer

from harness import plugins
from harness.commands.arguments import completed
from harness.commands.options import examples, prints
from harness.commands.output.console import Output
from harness.commands.output.tables import print_rows

SystemArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[SYSTEM]", help="All by default.", autocompletion=completed(lambda: plugins.names("systems"))
    ),
]


@prints()
def workloads(output: Output) -> None:
    """List the workloads with their options; the first value of an option is its default."""
    kinds = [plugins.workload(name) for name in plugins.names("workloads")]
    rows = [
        (kind.name, kind.summary, ", ".join(f"{name}={'|'.join(values)}" for name, values in kind.options.items()))
        for kind in kinds
    ]
    print_rows(("workload", "description", "options"), rows, output)


@prints()
def switches(output: Output, system: SystemArgument = None) -> None:
    """List the switches of a system: properties of its nodes."""
    names = (system,) if system else plugins.names("systems")
    kinds = [plugins.system(name)[0] for name in names]
    rows = [
        (kind.name, each.name, each.values, each.default, each.meaning) for kind in kinds for each in kind.switches()
    ]
    print_rows(("system", "switch", "values", "default", "meaning"), rows, output)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("workloads", epilog=examples("splitbrain workloads"))(workloads)
    app.command("switches", epilog=examples("splitbrain switches reference"))(switches)
