"""Cleans up after runs whose controller is gone. Safe to repeat, and safe to run several times at once.

On namespace hosts nothing outlives the sandbox, which the kernel tears down with its first process; only that process
itself can remain, if something kept it alive. It is identified by pid and start time, so that no other process is
touched. Containers and machines are undone from the journal (harness.recovery.teardown); the run's watchdog has
usually done that already.

A run that cannot be healed, or whose directory is damaged, does not stop the healing of the others: it is reported, and
healed as far as its journal can be read. What could not be undone stays in the journal, for the next `splitbrain heal`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Container, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from harness.model import BadInput, EnvironmentFailure, SplitbrainError
from harness.model.hosts import UndoRecord
from harness.model.plurals import counted
from harness.recovery.liveness import owner_is_alive, sandbox_process, started_ticks
from harness.recovery.teardown import HOSTS, exclusive, undo_hosts
from nemesis.journal import UndoJournal, pending, unreadable_line
from results.store import RunDirectory, Status, runs

END_SECONDS = 30.0
UNFINISHED: Final[tuple[Status, ...]] = ("created", "running")
"""The statuses of a run that has been abandoned, if its owner is gone."""


@dataclass(frozen=True, slots=True)
class HealStep:
    """What was done to a run, or why it could not be done."""

    text: str
    failed: bool = False


def heal_store(store: Path) -> Iterator[str]:
    """Heal every abandoned run of a store; yields a line for each step as it completes.

    Raises EnvironmentFailure at the end if something could not be healed.
    """
    steps: list[HealStep] = []
    for run in _all_runs(store):
        for step in _heal_if_abandoned(run, UNFINISHED, thoroughly=True):
            steps.append(step)
            yield step.text
    if not steps:
        yield "nothing to heal"
    failures = sum(step.failed for step in steps)
    if failures:
        raise EnvironmentFailure(f"{store}: {counted(failures, 'step')} of healing failed, as reported above")


def heal_before_a_run(store: Path) -> Iterator[str]:
    """Heal every abandoned run except those that may be starting; yields nothing if there is nothing to heal."""
    for run in _all_runs(store):
        for step in _heal_if_abandoned(run, ("running",), thoroughly=False):
            yield step.text


def heal_before_judging(directory: RunDirectory) -> Iterator[str]:
    """Heal one run or reproduction if it was abandoned. Raises BadInput while it is still running."""
    for run in [*_sides(directory), directory]:
        if run.status == "running":
            if owner_is_alive(run):
                raise BadInput(f"{run.path}: expected a run that has ended, it is still running")
            for step in _heal(run):
                yield step.text


def damaged_journal(run: RunDirectory) -> str | None:
    """Why a run's undo journal cannot be read in full, None if it can."""
    return unreadable_line(run.journal)


def _all_runs(store: Path) -> Iterator[RunDirectory]:
    for each in runs(store):
        yield from _sides(each)
        yield each


def _sides(directory: RunDirectory) -> list[RunDirectory]:
    """The side runs of a reproduction, or of a directory that may be one."""
    return [] if _status(directory) is not None and directory.kind == "run" else directory.sides()


def _status(run: RunDirectory) -> Status | None:
    """None if the run's status cannot be read."""
    try:
        return run.status
    except BadInput:
        return None


def _damage(run: RunDirectory) -> str:
    try:
        return f"its status is {run.status}"
    except BadInput as error:
        return str(error)


def _heal_if_abandoned(run: RunDirectory, statuses: Container[str], thoroughly: bool) -> Iterator[HealStep]:
    """thoroughly: also try again what could not be undone before, and report damage that leaves nothing to undo."""
    try:
        status = _status(run)
        if owner_is_alive(run):
            return
        if status in statuses or (thoroughly and status is not None and _open_hosts(run)):
            yield from _heal(run)
        elif status is None and (thoroughly or sandbox_process(run) is not None or pending(run.journal)):
            yield from _heal_damaged(run)
    except (SplitbrainError, OSError) as error:
        yield HealStep(f"{run.name}: could not be healed: {error}", failed=True)


def _open_hosts(run: RunDirectory) -> list[UndoRecord]:
    return [record for record in pending(run.journal) if record.fault == HOSTS]


def _heal(run: RunDirectory) -> Iterator[HealStep]:
    """The steps; none if another command healed the run meanwhile."""
    with exclusive(run):
        unfinished = run.status in UNFINISHED
        if not unfinished and not _open_hosts(run):
            return
        count = sum(record.fault != HOSTS for record in pending(run.journal))
        left = yield from _undo(run)
        if unfinished:
            run.enter("interrupted", datetime.now(UTC))
    if left:
        yield HealStep(f"{run.name}: interrupted, not all of its hosts are gone; what it recorded can be checked")
    elif unfinished:
        faults = counted(count, "open fault")
        yield HealStep(f"{run.name}: interrupted, {faults} gone with its hosts; what it recorded can be checked")


def _heal_damaged(run: RunDirectory) -> Iterator[HealStep]:
    """Undo what the journal names of a run whose status cannot be read; its files stay as they are."""
    with exclusive(run):
        left = yield from _undo(run)
    if not left:
        yield HealStep(f"{run.name}: damaged, nothing of it is left to undo: {_damage(run)}")


def _undo(run: RunDirectory) -> Generator[HealStep, None, list[UndoRecord]]:
    """End the run's processes and remove its hosts; returns the records of those that are still there."""
    process = sandbox_process(run)
    if process is not None:
        _end(process)
        yield HealStep(f"{run.name}: ended its controller, process {process}, and everything in its sandbox")
    left = []
    for record in _open_hosts(run):
        try:
            yield HealStep(f"{run.name}: {undo_hosts(record)}")
        except SplitbrainError as error:
            left.append(record)
            yield HealStep(f"{run.name}: its {record.kind} hosts could not be healed: {error}", failed=True)
    damage = damaged_journal(run)
    if damage:
        yield HealStep(f"{run.name}: could not be healed in full: {damage}", failed=True)
    UndoJournal(run.journal).all_healed(but=left)
    return left


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has just ended by itself
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + END_SECONDS
    while started_ticks(pid) is not None:
        if time.monotonic() > deadline:
            raise EnvironmentFailure(f"ending the sandbox of process {pid}: still there after {END_SECONDS:g} s")
        time.sleep(0.01)
