"""`splitbrain faults` and `splitbrain faults test`: what can be broken here, and whether breaking and mending works."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from tabulate import tabulate

from harness.console import progress
from harness.fault_trials import Ground, Trial, attempt, survey
from harness.model.errors import EXIT_INVALID
from harness.options import DiskKinds, DiskOption, HostKinds, InventoryOption, absolute
from nemesis.faults import FAULTS

HostsOption = Annotated[list[HostKinds] | None, typer.Option(help="Kinds of host; repeat it. All but ssh otherwise.")]
WIDTHS = [12, 14, 10, 10, 70]

app = typer.Typer(invoke_without_command=True, help="What can be broken here, and whether breaking and mending works.")


@app.callback()
def faults(
    context: typer.Context, hosts: HostsOption = None, disk: DiskOption = None, inventory: InventoryOption = None
) -> None:
    """List every fault with, for this machine, `available` or the reason why not."""
    if context.invoked_subcommand:
        return
    grounds = _grounds(hosts, disk, inventory)
    with _store() as store, progress() as report:
        rows = []
        for ground in grounds:
            report(f"{ground.name}: looking")
            reasons = survey(ground, store)
            rows += [(fault.name, ground.name, reasons[fault.name] or "available") for fault in FAULTS]
    print(tabulate([(fault.name, ", ".join(fault.deeds), fault.words) for fault in FAULTS], ("fault", "deeds", "what")))
    print()
    print(tabulate(rows, headers=("fault", "hosts", "here"), maxcolwidths=[12, 16, 90]))


@app.command("test")
def trial_command(hosts: HostsOption = None, disk: DiskOption = None, inventory: InventoryOption = None) -> None:
    """Inject, prove and heal each fault on each kind of host; exit 1 where one does not work that is available."""
    with _store() as store, progress() as report:
        trials = [trial for ground in _grounds(hosts, disk, inventory) for trial in attempt(ground, store, report)]
    print(table(trials))
    if any(trial.failed for trial in trials):
        raise typer.Exit(EXIT_INVALID)


def table(trials: Sequence[Trial]) -> str:
    """The trials for a terminal; times in milliseconds."""
    rows = [(t.fault, t.ground, _ms(t.injected_ms), _ms(t.healed_ms), _outcome(t)) for t in trials]
    headers = ("fault", "hosts", "injected ms", "healed ms", "outcome")
    return tabulate(rows, headers=headers, maxcolwidths=WIDTHS, disable_numparse=True)


def _outcome(trial: Trial) -> str:
    if trial.missing:
        return f"unavailable: {trial.missing}"
    return f"FAILED: {trial.failed}" if trial.failed else "proved, healed"


def _ms(number: float | None) -> str:
    return "" if number is None else f"{number:.1f}"


@contextmanager
def _store() -> Iterator[Path]:
    """A store for runs that nobody will ask for again."""
    with tempfile.TemporaryDirectory(prefix="splitbrain-faults-") as path:
        yield Path(path)


def _grounds(hosts: list[HostKinds] | None, disk: DiskKinds | None, inventory: Path | None) -> list[Ground]:
    """The kinds of host asked for, or all that need no inventory."""
    kinds = hosts or [kind for kind in HostKinds if kind is not HostKinds.SSH or inventory]
    return [Ground(kind.value, disk.value if disk else "directory", absolute(inventory)) for kind in kinds]
