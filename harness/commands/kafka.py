"""`splitbrain kafka install VERSION` and `splitbrain kafka list`: Apache Kafka releases on this machine."""

from __future__ import annotations

import asyncio

import typer

from harness.commands.options import prints
from harness.commands.output.console import Output
from harness.commands.output.progress import progress
from harness.commands.output.tables import print_rows
from harness.model.progress import phases
from nodes.kafka.artifacts import Library

app = typer.Typer(no_args_is_help=True, help="Apache Kafka releases on this machine.")


@app.command()
def install(version: str = typer.Argument(help="E.g. 3.9.1, 3.9, newest, or 'newest 4'.")) -> None:
    """Download a release into the cache."""
    with progress() as on_event:
        release = asyncio.run(Library.default(phases(on_event)).resolve(version))
    print(f"Kafka {release.version}: {release.jars} ({release.why})")


@app.command("list")
@prints()
def list_command(output: Output) -> None:
    """List the installed releases."""
    rows = [(str(release.version), release.why, str(release.jars)) for release in Library.default().installed()]
    print_rows(("version", "why", "jars"), rows, output)


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="kafka")
