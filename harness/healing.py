"""Undoes what a run left on this machine whose controller is gone. Twice in a row is as good as once.

On namespace hosts nothing outlives the sandbox, which the kernel takes down with its first process; what may be left
is that process itself, if something kept it alive. It is known by pid and start time, so that no other process is
ever touched.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from harness.launch import owner_is_alive, sandbox_process, started_ticks
from harness.model import EnvironmentFailure
from nemesis.journal import UndoJournal, pending
from results.store import RunDirectory, runs

END_SECONDS = 30.0


def heal_store(store: Path) -> Iterator[str]:
    """Heal every run of a store that is said to be running and whose command is gone; a line for each thing done."""
    directories = [run for each in runs(store) for run in [*_sides(each), each]]
    abandoned = [run for run in directories if run.status in ("created", "running") and not owner_is_alive(run)]
    for run in abandoned:
        yield from _heal(run)
    if not abandoned:
        yield "nothing to heal"


def _sides(directory: RunDirectory) -> list[RunDirectory]:
    return directory.sides() if directory.kind == "reproduction" else []


def _heal(run: RunDirectory) -> Iterator[str]:
    process = sandbox_process(run)
    if process is not None:
        _end(process)
        yield f"{run.name}: ended its sandbox, process {process}, and all in it"
    left = len(pending(run.journal))
    UndoJournal(run.journal).all_healed()
    run.enter("interrupted", datetime.now(UTC))
    yield f"{run.name}: interrupted, {left} open faults gone with its sandbox; what it recorded can be checked"


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + END_SECONDS
    while started_ticks(pid) is not None:
        if time.monotonic() > deadline:
            raise EnvironmentFailure(f"ending the sandbox of process {pid}: still there after {END_SECONDS:g} s")
        time.sleep(0.01)
