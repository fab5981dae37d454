"""Which processes a run's directory names, and whether they are still there: known by pid and start time, never by pid
alone, so that no other process is ever taken for one of them.
"""

from __future__ import annotations

import os
from pathlib import Path

from results.files import read_json, write_json
from results.store import RunDirectory

SANDBOX = "sandbox.json"
OWNER = "owner.json"


def own(run: RunDirectory) -> None:
    """Say in the run's directory that this process is carrying it out, for `splitbrain heal` to see."""
    write_json(run.path / OWNER, {"pid": os.getpid(), "started_ticks": started_ticks(os.getpid())})


def owner_is_alive(run: RunDirectory) -> bool:
    """Whether the process that carries the run out is still there."""
    return _recorded_process(run.path / OWNER) is not None


def sandbox_process(run: RunDirectory) -> int | None:
    """The pid of the run's sandbox while it lives."""
    return _recorded_process(run.path / SANDBOX)


def _recorded_process(path: Path) -> int | None:
    if not path.exists():
        return None
    known = read_json(path)
    alive = known["started_ticks"] is not None and started_ticks(known["pid"]) == known["started_ticks"]
    return int(known["pid"]) if alive else None


def started_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (proc(5), field 22); no later process of its pid shares it.

    None where there is none, or only what is left of one until its parent, perhaps a container's, looks at it.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])
