"""The directory of the logs that simulated nodes have in files, in memory where the machine has a file system for that.

    with LogDirectory() as directory:
        directory.path

A lock says that a directory is in use. What a process that was killed has left is removed by the next one.

Contains the directory. Does not contain what nodes write into it (driver/release/FileDisk.java).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

PREFIX = "splitbrain-logs-"
IN_MEMORY = Path("/dev/shm")


class LogDirectory:
    """A new directory; it is removed when this is closed."""

    def __init__(self, parent: Path | None = None) -> None:
        """parent: where it is made; None for /dev/shm if that can be written, otherwise where temporary files are."""
        if parent is None:
            parent = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
        remove_unused(parent)
        while (made := _made(parent)) is None:
            pass  # another process took it for unused before it was locked
        self.path, self._lock = made

    def __enter__(self) -> LogDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _made(parent: Path) -> tuple[Path, int] | None:
    """A new directory and its lock, a file descriptor; None if it is gone by then."""
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    try:
        lock = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    fcntl.flock(lock, fcntl.LOCK_EX)
    if path.exists():
        return path, lock
    os.close(lock)
    return None


def remove_unused(parent: Path) -> None:
    """Remove the directories of processes that have ended."""
    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # in use, of another user, or removed meanwhile
            found = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
            finally:
                os.close(found)
