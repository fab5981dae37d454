"""`splitbrain plugins`: every kind of system, host, workload, fault, check and scenario that is installed."""

from __future__ import annotations

from importlib.metadata import entry_points

import typer

from harness.commands.options import examples, prints
from harness.commands.output.console import Output
from harness.commands.output.tables import print_rows

GROUPS = ("systems", "hosts", "workloads", "faults", "checks", "scenarios")


@prints()
def plugins(output: Output) -> None:
    """List what is installed: systems, hosts, workloads, faults, checks and scenarios."""
    points = [(group, point) for group in GROUPS for point in sorted(entry_points(group=f"splitbrain.{group}"))]
    rows = [(group, point.name, point.value, point.dist.name if point.dist else "") for group, point in points]
    print_rows(("kind", "name", "value", "package"), rows, output)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plugins", epilog=examples("splitbrain plugins --json"))(plugins)
