"""`splitbrain faults` and `splitbrain faults test`: what can be broken here, and whether breaking and mending works."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from tabulate import tabulate

from harness.commands.console import progress
from harness.commands.options import DiskKinds, DiskOption, HostKinds, InventoryOption, absolute
from harness.model.errors import EXIT_INVALID
from nemesis.fault import Fault
from nemesis.registry import FAULTS

if TYPE_CHECKING:
    from harness.running.fault_trials import Trial, TrialEnvironment

HostsOption = Annotated[list[HostKinds] | None, typer.Option(help="Kinds of host; repeat it. All but ssh otherwise.")]
WIDTHS = [12, 40, 14, 10, 10, 60]

app = typer.Typer(invoke_without_command=True, help="What can be broken here, and whether breaking and mending works.")


@app.callback()
def faults(
    context: typer.Context, hosts: HostsOption = None, disk: DiskOption = None, inventory: InventoryOption = None
) -> None:
    """List every fault with, for this machine, `available` or the reason why not."""
    if context.invoked_subcommand:
        return
    from harness.running.fault_trials import survey

    with _store() as store, progress() as report:
        rows = []
        for environment in _grounds(hosts, disk, inventory):
            report(f"{environment.name}: looking")
            reasons = survey(environment, store)
            rows += [row for fault in FAULTS for row in _availability(fault, environment.name, reasons)]
    print(
        tabulate(
            [(fault.name, ", ".join(fault.actions), fault.words) for fault in FAULTS],
            ("fault", "actions", "what"),
            maxcolwidths=[12, 40, 70],
        )
    )
    print()
    print(tabulate(rows, headers=("fault", "hosts", "actions", "here"), maxcolwidths=[12, 16, 40, 70]))


def _availability(fault: Fault, environment: str, reasons: Mapping[str, str | None]) -> list[tuple[str, str, str, str]]:
    """A line for what is available of a fault, and one for each reason why some of it is not."""
    grouped: dict[str, list[str]] = {}
    for action in fault.actions:
        grouped.setdefault(reasons[action] or "available", []).append(action)
    return [(fault.name, environment, ", ".join(actions), reason) for reason, actions in grouped.items()]


@app.command("test")
def trial_command(hosts: HostsOption = None, disk: DiskOption = None, inventory: InventoryOption = None) -> None:
    """Inject, prove and heal each fault on each kind of host; exit 1 where one does not work that is available."""
    from harness.running.fault_trials import attempt

    with _store() as store, progress() as report:
        trials = [
            trial for environment in _grounds(hosts, disk, inventory) for trial in attempt(environment, store, report)
        ]
    print(table(trials))
    if any(trial.failed for trial in trials):
        raise typer.Exit(EXIT_INVALID)


def table(trials: Sequence[Trial]) -> str:
    """The trials for a terminal; times in milliseconds."""
    tried = [trial for trial in trials if not trial.missing]
    rows: list[tuple[str, ...]] = [
        (t.fault, t.what, t.environment, _ms(t.injected_ms), _ms(t.healed_ms), _outcome(t)) for t in tried
    ]
    rows += _unavailable(trials)
    headers = ("fault", "what", "hosts", "injected ms", "healed ms", "outcome")
    return tabulate(rows, headers=headers, maxcolwidths=WIDTHS, disable_numparse=True)


def _unavailable(trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    """A line for each reason why something of a fault cannot be had."""
    actions: dict[tuple[str, str, str], dict[str, None]] = {}
    for trial in trials:
        if trial.missing:
            actions.setdefault((trial.fault, trial.environment, trial.missing), {})[trial.what] = None
    return [
        (fault, ", ".join(names), environment, "", "", f"unavailable: {reason}")
        for (fault, environment, reason), names in actions.items()
    ]


def _outcome(trial: Trial) -> str:
    return f"FAILED: {trial.failed}" if trial.failed else "proved, healed"


def _ms(number: float | None) -> str:
    return "" if number is None else f"{number:.1f}"


@contextmanager
def _store() -> Iterator[Path]:
    """A store for runs that nobody will ask for again."""
    with tempfile.TemporaryDirectory(prefix="splitbrain-faults-") as path:
        yield Path(path)


def _grounds(hosts: list[HostKinds] | None, disk: DiskKinds | None, inventory: Path | None) -> list[TrialEnvironment]:
    """The kinds of host asked for, or all that need no inventory."""
    from harness.running.fault_trials import TrialEnvironment

    kinds = hosts or [kind for kind in HostKinds if kind is not HostKinds.SSH or inventory]
    return [TrialEnvironment(kind.value, disk.value if disk else "directory", absolute(inventory)) for kind in kinds]
