"""`splitbrain plugins`: every kind of system, host, workload, fault, check and scenario that is installed."""

from __future__ import annotations

from importlib.metadata import entry_points

import typer
from tabulate import tabulate

from harness.commands.console import print_json
from harness.commands.options import Format, FormatOption

GROUPS = ("systems", "hosts", "workloads", "faults", "checks", "scenarios")


def plugins(output: FormatOption = Format.TEXT) -> None:
    """List what is installed: systems, hosts, workloads, faults, checks and scenarios."""
    points = [(group, point) for group in GROUPS for point in sorted(entry_points(group=f"splitbrain.{group}"))]
    rows = [(group, point.name, point.value, point.dist.name if point.dist else "") for group, point in points]
    headers = ("kind", "name", "value", "package")
    if output is Format.JSON:
        for row in rows:
            print_json(dict(zip(headers, row, strict=True)))
    else:
        print(tabulate(rows, headers=headers))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plugins")(plugins)
