"""Watches over hosts that outlive their controller: when the controller dies, whatever the cause, it undoes them.

    python -m harness.recovery.watchdog results/runs/…
    (started by harness.running.controller_process, never by hand)

It is a process of its own, in a session of its own, that reads its standard input until that ends: then whoever carried
the run out is done with it, or dead, and the controller ends too. One that ends in good order has crossed its hosts out
in the journal by then, and there is nothing to do.
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
from harness.recovery.teardown import HOSTS, alone_with, undo_hosts
from nemesis.journal import pending
from results.store import RunDirectory

TRIES = 5
PAUSE_SECONDS = 2.0
CONTROLLER_SECONDS = 60.0
"""How long a controller may take to end in good order once whoever started it is gone."""
WATCHDOG_LOG = "guardian.log"


@contextmanager
def watchdog(run: RunDirectory) -> Iterator[None]:
    """A guardian stands by until the end of the block, which it outlives if the controller dies within it."""
    argv = [sys.executable, "-m", "harness.recovery.watchdog", str(run.path)]
    with (run.path / WATCHDOG_LOG).open("wb") as log:
        guardian = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
    assert guardian.stdin is not None
    try:
        yield
    finally:
        guardian.stdin.close()
        guardian.wait()


def main() -> None:
    """Wait until the controller is gone, then undo the hosts that the journal of its run still holds."""
    run = RunDirectory(Path(sys.argv[1]).absolute())
    sys.stdin.buffer.read()
    deadline = time.monotonic() + CONTROLLER_SECONDS
    while sandbox_process(run) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(TRIES):
        with alone_with(run):
            records = [record for record in pending(run.journal) if record.fault == HOSTS]
            if all(_is_undone(record) for record in records):
                return
        time.sleep(PAUSE_SECONDS)  # what refused once, an engine under load or a machine out of reach, may not again
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
