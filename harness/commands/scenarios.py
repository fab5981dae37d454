"""`splitbrain scenarios`: the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from harness.scenarios.families import FAMILIES

WhatArgument = Annotated[str, typer.Argument(metavar="[list|show]", autocompletion=completed(lambda: ("list", "show")))]
IdArgument = Annotated[str, typer.Argument(metavar="[ID]", autocompletion=completed(lambda: plugins.scenarios()))]


@prints()
def scenarios(output: Output, what: WhatArgument = "list", identifier: IdArgument = "") -> None:
    """List the scenarios and what each one needs, or show one: `scenarios show ID`."""
    if what not in ("list", "show"):
        raise BadInput(f"scenarios {what!r}: expected list, or show ID")
    if what == "show":
        _show(identifier, output)
    elif output.is_json:
        for each in plugins.scenarios().values():
            print_json(as_json(each))
    else:
        rows = [(each.id, each.title, _state(each), str(each.source)) for each in plugins.scenarios().values()]
        print_table(("id", "title", "runs on", "source"), sorted(rows, key=_by_family))


def _show(identifier: str, output: Output) -> None:
    chosen = plugins.scenario(identifier)
    if output.is_json:
        print_json(as_json(chosen))
    else:
        print(describe(chosen))


def _by_family(row: Sequence[str]) -> tuple[int, str]:
    family = row[0].partition("-")[0]
    known = tuple(FAMILIES)
    return (known.index(family) if family in known else len(known), row[0])


def _state(scenario: Scenario) -> str:
    """The systems on which a scenario runs, with the side where that is one of two."""
    return ", ".join(_on(scenario, system) for system in scenario.systems)


def _on(scenario: Scenario, system: str) -> str:
    sides = scenario.sides_on(system)
    return system if len(sides) == len(scenario.sides) else f"{system} ({sides[0]} side)"


def as_json(scenario: Scenario) -> dict[str, object]:
    """A scenario for programs; state is `complete` if a system has all its sides, and reason says what others lack."""
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
