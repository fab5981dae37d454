"""Which processes a run's directory names, and whether they are still alive.

A process is identified by pid and start time, never by pid alone, so that no other process is mistaken for it.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness.model import BadInput
from results.files import read_json, write_json
from results.store import RunDirectory

SANDBOX = "sandbox.json"
OWNER = "owner.json"


def own(run: RunDirectory) -> None:
    """Record in the run's directory that this process carries it out, for `splitbrain heal`."""
    write_json(run.path / OWNER, {"pid": os.getpid(), "started_ticks": started_ticks(os.getpid())})


def owner_is_alive(run: RunDirectory) -> bool:
    """Whether the process that carries the run out is alive."""
    return _recorded_process(run.path / OWNER) is not None


def sandbox_process(run: RunDirectory) -> int | None:
    """The pid of the run's sandbox; None once it has ended."""
    return _recorded_process(run.path / SANDBOX)


def _recorded_process(path: Path) -> int | None:
    """None also if the file does not name a process."""
    try:
        known = read_json(path)
        pid, ticks = int(known["pid"]), known["started_ticks"]
    except (BadInput, KeyError, TypeError, ValueError):
        return None
    return pid if pid > 0 and ticks is not None and started_ticks(pid) == ticks else None


def started_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (proc(5), field 22); no later process of its pid shares it.

    None if the process does not exist, or is a zombie.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])
