"""`splitbrain scenarios`: the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from harness import plugins
from harness.commands.arguments import completed
from harness.commands.options import examples, prints
from harness.commands.output.console import Output, print_json
from harness.commands.output.tables import print_table
from harness.model import BadInput
from harness.model.scenario import Scenario
from harness.scenarios.description import describe

WhatArgument = Annotated[str, typer.Argument(metavar="[list|show]", autocompletion=completed(lambda: ("list", "show")))]
IdArgument = Annotated[str, typer.Argument(metavar="[ID]", autocompletion=completed(lambda: plugins.scenarios()))]


@prints()
def scenarios(output: Output, what: WhatArgument = "list", identifier: IdArgument = "") -> None:
    """List the scenarios, or show one: `scenarios show ID`."""
    if what not in ("list", "show"):
        raise BadInput(f"scenarios {what!r}: expected list, or show ID")
    chosen = [plugins.scenario(identifier)] if what == "show" else list(plugins.scenarios().values())
    if output.is_json:
        for each in chosen:
            print_json(as_json(each))
    elif what == "show":
        print(describe(chosen[0]))
    else:
        rows = [(each.id, each.title, ", ".join(each.systems), str(each.source)) for each in chosen]
        print_table(("id", "title", "systems", "source"), rows)


def as_json(scenario: Scenario) -> dict[str, object]:
    """A scenario for programs. state is `complete` if a system has all its sides; reason is why a side is missing."""
    whole = [system for system in scenario.systems if len(scenario.sides_on(system)) == len(scenario.sides)]
    return {
        "id": scenario.id,
        "title": scenario.title,
        "source": str(scenario.source),
        "workload": scenario.workload,
        "state": "complete" if whole else "one side",
        "systems": {system: list(scenario.sides_on(system)) for system in scenario.systems},
        "reason": "; ".join(_missing(scenario)),
    }


def _missing(scenario: Scenario) -> Iterator[str]:
    for system in plugins.names("systems"):
        missing = [name for name in scenario.sides if name not in scenario.sides_on(system)]
        if missing:
            yield f"{system} has no {' and no '.join(missing)} side"


def register(app: typer.Typer) -> None:
    """Add the command."""
    commands = ("splitbrain scenarios", "splitbrain scenarios show PV-01", "splitbrain scenarios --json")
    app.command("scenarios", epilog=examples(*commands))(scenarios)
