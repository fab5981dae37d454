"""Undoes hosts that outlive their controller when the controller dies, whatever the cause.

    python -m harness.recovery.watchdog results/runs/…      (started by harness.running.controller_process only)

The watchdog is a process in a session of its own. It reads its standard input until that ends: then the command that
started the run has finished or died, and the controller ends too. A controller that ends in good order has removed its
hosts from the journal by then, and there is nothing to do.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.model import SplitbrainError
from harness.model.hosts import UndoRecord
from harness.recovery.liveness import sandbox_process
from harness.recovery.teardown import HOSTS, exclusive, undo_hosts
from nemesis.journal import pending
from results.store import RunDirectory

TRIES = 5
PAUSE_SECONDS = 2.0
CONTROLLER_SECONDS = 60.0
"""Time limit for a controller to end in good order once the command that started it is gone."""
WATCHDOG_LOG = "watchdog.log"


@contextmanager
def watchdog(run: RunDirectory) -> Iterator[None]:
    """A watchdog process for the duration of the block; it outlives the block if this process dies."""
    argv = [sys.executable, "-P", "-m", "harness.recovery.watchdog", str(run.path)]
    with (run.path / WATCHDOG_LOG).open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
    assert process.stdin is not None
    try:
        yield
    finally:
        process.stdin.close()
        process.wait()


def main() -> None:
    """Wait until the controller is gone, then undo the hosts that the journal of its run still holds."""
    run = RunDirectory(Path(sys.argv[1]).absolute())
    sys.stdin.buffer.read()
    deadline = time.monotonic() + CONTROLLER_SECONDS
    while sandbox_process(run) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(TRIES):
        with exclusive(run):
            records = [record for record in pending(run.journal) if record.fault == HOSTS]
            if all(_is_undone(record) for record in records):
                return
        time.sleep(PAUSE_SECONDS)  # an overloaded engine or an unreachable machine may answer the next time
    sys.exit(1)


def _is_undone(record: UndoRecord) -> bool:
    try:
        print(undo_hosts(record), flush=True)
    except SplitbrainError as error:
        print(error, flush=True)
        return False
    return True


if __name__ == "__main__":
    main()
