"""Cleans up after runs whose controller is gone. Safe to repeat, and safe to run several times at once.

On namespace hosts nothing outlives the sandbox, which the kernel tears down with its first process; only that process
itself can remain, if something kept it alive. It is identified by pid and start time, so that no other process is
touched. Containers and machines are undone from the journal (harness.recovery.teardown); the run's watchdog has
usually done that already.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Container, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from harness.model import BadInput, EnvironmentFailure
from harness.model.plurals import counted
from harness.recovery.liveness import owner_is_alive, sandbox_process, started_ticks
from harness.recovery.teardown import HOSTS, exclusive, undo_hosts
from nemesis.journal import UndoJournal, pending
from results.store import RunDirectory, Status, runs

END_SECONDS = 30.0
UNFINISHED: Final[tuple[Status, ...]] = ("created", "running")
"""The statuses of a run that has been abandoned, if its owner is gone."""


def heal_store(store: Path) -> Iterator[str]:
    """Heal every abandoned run of a store; yields a line for each step as it completes."""
    healed = False
    for line in _heal_all(store, UNFINISHED):
        healed = True
        yield line
    if not healed:
        yield "nothing to heal"


def heal_before_a_run(store: Path) -> Iterator[str]:
    """Heal every abandoned run except those that may be starting; yields nothing if there is nothing to heal."""
    yield from _heal_all(store, ("running",))


def heal_before_judging(directory: RunDirectory) -> Iterator[str]:
    """Heal one run or reproduction if it was abandoned. Raises BadInput while it is still running."""
    for run in [*_sides(directory), directory]:
        if run.status == "running":
            if owner_is_alive(run):
                raise BadInput(f"{run.path}: expected a run that has ended, it is still running")
            yield from _heal(run)


def _heal_all(store: Path, statuses: Container[str]) -> Iterator[str]:
    for each in runs(store):
        for run in [*_sides(each), each]:
            if run.status in statuses and not owner_is_alive(run):
                yield from _heal(run)


def _sides(directory: RunDirectory) -> list[RunDirectory]:
    return directory.sides() if directory.kind == "reproduction" else []


def _heal(run: RunDirectory) -> Iterator[str]:
    """A line for each step; none if another command healed the run meanwhile."""
    with exclusive(run):
        if run.status not in UNFINISHED:
            return
        process = sandbox_process(run)
        if process is not None:
            _end(process)
            yield f"{run.name}: ended its controller, process {process}, and everything in its sandbox"
        open_faults = pending(run.journal)
        for record in open_faults:
            if record.fault == HOSTS:
                yield f"{run.name}: {undo_hosts(record)}"
        count = sum(record.fault != HOSTS for record in open_faults)
        UndoJournal(run.journal).all_healed()
        run.enter("interrupted", datetime.now(UTC))
    faults = counted(count, "open fault")
    yield f"{run.name}: interrupted, {faults} gone with its hosts; what it recorded can be checked"


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has just ended by itself
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + END_SECONDS
    while started_ticks(pid) is not None:
        if time.monotonic() > deadline:
            raise EnvironmentFailure(f"ending the sandbox of process {pid}: still there after {END_SECONDS:g} s")
        time.sleep(0.01)
