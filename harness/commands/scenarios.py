"""`splitbrain scenarios`: the catalogue."""

from __future__ import annotations

from typing import Annotated

import typer
from tabulate import tabulate

from harness import plugins
from harness.model import BadInput
from harness.scenarios.description import describe


def scenarios(
    what: Annotated[str, typer.Argument(metavar="[list|show]")] = "list",
    identifier: Annotated[str, typer.Argument(metavar="[ID]")] = "",
) -> None:
    """List the scenarios, or show one: `scenarios show ID`."""
    if what == "show":
        print(describe(plugins.scenario(identifier)))
    elif what == "list":
        rows = [(each.id, each.title, str(each.source)) for each in plugins.scenarios().values()]
        print(tabulate(rows, headers=("id", "title", "source"), maxcolwidths=70))
    else:
        raise BadInput(f"scenarios {what!r}: expected list, or show ID")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("scenarios")(scenarios)
