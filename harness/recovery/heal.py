"""Undoes what a run left on this machine whose controller is gone. Twice is as good as once, in a row or at a time.

On namespace hosts nothing outlives the sandbox, which the kernel takes down with its first process; what may be left
is that process itself, if something kept it alive. It is known by pid and start time, so that no other process is
ever touched. Containers and machines are undone by what the journal says of them (harness.recovery.teardown), which
the run's
guardian has most likely done already.
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
from harness.recovery.liveness import owner_is_alive, sandbox_process, started_ticks
from harness.recovery.teardown import HOSTS, alone_with, undo_hosts
from nemesis.journal import UndoJournal, pending
from results.store import RunDirectory, Status, runs

END_SECONDS = 30.0
ABANDONED: Final[tuple[Status, ...]] = ("created", "running")
"""What a run may say of itself that nobody carries out."""


def heal_store(store: Path) -> Iterator[str]:
    """Heal every run of a store that is said to be running and whose command is gone; a line for each thing done."""
    told = False
    for line in _heal_all(store, ABANDONED):
        told = True
        yield line
    if not told:
        yield "nothing to heal"


def heal_before_a_run(store: Path) -> Iterator[str]:
    """The same before a new run, silent where there is nothing, and with no eye on runs that may just be beginning."""
    yield from _heal_all(store, ("running",))


def heal_before_judging(directory: RunDirectory) -> Iterator[str]:
    """Heal one run or reproduction if it was abandoned. Raises BadInput where somebody still carries it out."""
    for run in [*_sides(directory), directory]:
        if run.status == "running":
            if owner_is_alive(run):
                raise BadInput(f"{run.path}: expected a run that has ended, it is still being carried out")
            yield from _heal(run)


def _heal_all(store: Path, statuses: Container[str]) -> Iterator[str]:
    for each in runs(store):
        for run in [*_sides(each), each]:
            if run.status in statuses and not owner_is_alive(run):
                yield from _heal(run)


def _sides(directory: RunDirectory) -> list[RunDirectory]:
    return directory.sides() if directory.kind == "reproduction" else []


def _heal(run: RunDirectory) -> Iterator[str]:
    """A line for each thing done; none where somebody else healed it while we waited."""
    with alone_with(run):
        if run.status not in ABANDONED:
            return
        process = sandbox_process(run)
        if process is not None:
            _end(process)
            yield f"{run.name}: ended its controller, process {process}, and all in it"
        open_faults = pending(run.journal)
        for record in open_faults:
            if record.fault == HOSTS:
                yield f"{run.name}: {undo_hosts(record)}"
        left = sum(record.fault != HOSTS for record in open_faults)
        UndoJournal(run.journal).all_healed()
        run.enter("interrupted", datetime.now(UTC))
    yield f"{run.name}: interrupted, {left} open faults gone with its hosts; what it recorded can be checked"


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has just ended by itself
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + END_SECONDS
    while started_ticks(pid) is not None:
        if time.monotonic() > deadline:
            raise EnvironmentFailure(f"ending the sandbox of process {pid}: still there after {END_SECONDS:g} s")
        time.sleep(0.01)
