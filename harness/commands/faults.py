"""`splitbrain faults` and `splitbrain faults test`: which faults are available here, and whether they work."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import plugins
from harness.commands.arguments import completed
from harness.commands.fault_description import as_json, describe
from harness.commands.options import prints
from harness.commands.output.console import Output, print_json
from harness.commands.output.progress import progress
from harness.commands.output.tables import print_rows, print_table
from harness.model.errors import EXIT_INVALID
from harness.model.progress import Phase
from nemesis.fault import Fault

if TYPE_CHECKING:
    from harness.running.fault_trials import Trial, TrialEnvironment

HostsOption = Annotated[
    list[str] | None, typer.Option(help="Kind of host; can be repeated. All that need no inventory by default.")
]
DiskOption = Annotated[str | None, typer.Option(help="File system that nodes keep their logs on.")]
InventoryOption = Annotated[Path | None, typer.Option(help="TOML file that lists the machines for --hosts ssh.")]

app = typer.Typer(invoke_without_command=True, help="Which faults are available here, and whether they work.")


@app.callback()
@prints(progress=True)
def faults(
    context: typer.Context,
    output: Output,
    hosts: HostsOption = None,
    disk: DiskOption = None,
    inventory: InventoryOption = None,
) -> None:
    """List every fault, and whether it is available on this machine or why not."""
    if context.invoked_subcommand:
        return
    from harness.running.fault_trials import survey

    with _store() as store, progress(output.verbosity) as on_event:
        rows = []
        for environment in _environments(hosts, disk, inventory):
            on_event(Phase(f"{environment.name}: checking available faults"))
            reasons = survey(environment, store)
            for fault in plugins.faults().values():
                rows += _availability(fault, environment.name, reasons)
    if not output.is_json:
        described = [(each.name, ", ".join(each.actions), each.summary) for each in plugins.faults().values()]
        print_table(("fault", "actions", "description"), described)
        print()
    print_rows(("fault", "hosts", "actions", "here"), rows, output)


@app.command("show")
@prints()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=completed(lambda: plugins.names("faults")))],
    output: Output,
) -> None:
    """Show a fault: its actions, their arguments with defaults, and an example for a plan file."""
    fault = plugins.fault(name)
    if output.is_json:
        print_json(as_json(fault))
    else:
        print(describe(fault))


def _availability(fault: Fault, environment: str, reasons: Mapping[str, str | None]) -> list[tuple[str, str, str, str]]:
    """A line for the available actions of a fault, and one for each reason why others are not."""
    grouped: dict[str, list[str]] = {}
    for action in fault.actions:
        grouped.setdefault(reasons[action] or "available", []).append(action)
    return [(fault.name, environment, ", ".join(actions), reason) for reason, actions in grouped.items()]


@app.command("test")
@prints(progress=True)
def trial_command(
    output: Output, hosts: HostsOption = None, disk: DiskOption = None, inventory: InventoryOption = None
) -> None:
    """Inject, verify and heal each fault on each kind of host. Exits 1 if an available fault does not work."""
    from harness.running.fault_trials import attempt

    with _store() as store, progress(output.verbosity) as on_event:
        environments = _environments(hosts, disk, inventory)
        trials = [trial for environment in environments for trial in attempt(environment, store, on_event)]
    print_rows(("fault", "what", "hosts", "injected ms", "healed ms", "outcome"), _rows(trials), output)
    if any(trial.failed for trial in trials):
        raise typer.Exit(EXIT_INVALID)


def _rows(trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    """The trials, then a line for each reason why others were not possible; times in milliseconds."""
    tried = [
        (t.fault, t.what, t.environment, _ms(t.injected_ms), _ms(t.healed_ms), _outcome(t))
        for t in trials
        if not t.unavailable
    ]
    return [*tried, *_unavailable(trials)]


def _unavailable(trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    """A line for each reason why actions of a fault are unavailable."""
    actions: dict[tuple[str, str, str], dict[str, None]] = {}
    for trial in trials:
        if trial.unavailable:
            actions.setdefault((trial.fault, trial.environment, trial.unavailable), {})[trial.what] = None
    return [
        (fault, ", ".join(names), environment, "", "", f"unavailable: {reason}")
        for (fault, environment, reason), names in actions.items()
    ]


def _outcome(trial: Trial) -> str:
    return f"FAILED: {trial.failed}" if trial.failed else "verified, healed"


def _ms(number: float | None) -> str:
    return "" if number is None else f"{number:.1f}"


@contextmanager
def _store() -> Iterator[Path]:
    """A temporary store."""
    with tempfile.TemporaryDirectory(prefix="splitbrain-faults-") as path:
        yield Path(path)


def _environments(hosts: list[str] | None, disk: str | None, inventory: Path | None) -> list[TrialEnvironment]:
    """The requested kinds of host, or all that need no inventory."""
    from harness.running.fault_trials import TrialEnvironment

    names = hosts or [
        name for name in plugins.names("hosts") if inventory or not plugins.host_kind(name).needs_inventory
    ]
    file_system = disk or "directory"
    machines = str(inventory.absolute()) if inventory else None
    return [TrialEnvironment(name, file_system, machines) for name in names]


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="faults")
