"""The processes in which runs are simulated.

    with processes(at_once) as pool:
        pool.submit(screen_all, request, seeds, available)

With the directory of the reference system's compiled modules (nodes.simulation.compiled), the processes import these.

Contains the processes. Does not contain what they do (searching.py, recording.py).
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from nodes.simulation.compiled import import_from

PR_SET_PDEATHSIG = 1
GARBAGE_THRESHOLD = 20_000
"""Objects made between two collections of garbage. With Python's 700, these take a twentieth of the time."""


@contextmanager
def processes(at_once: int, compiled: Path | None = None) -> Iterator[Executor]:
    """Processes to simulate in; they end with this one. What has not begun at the end of the block is cancelled."""
    spawning = multiprocessing.get_context("spawn")  # a fork would have this process's threads in an unknown state
    with ProcessPoolExecutor(at_once, spawning, initializer=_begin, initargs=(os.getpid(), compiled)) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int, compiled: Path | None) -> None:
    """Prepare a process that simulates: it ends when its parent does, and leaves a terminal's interrupt to the parent.

    What it has imported by then is never garbage.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getppid() != parent:
        os._exit(1)
    if compiled is not None:
        import_from(compiled)
    import harness.simulating.recording  # noqa: F401 - what a process does; it imports some of what can be compiled

    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)
