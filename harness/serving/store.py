"""The rows of a store as the pages need them: read again when they are older than MAX_AGE_SECONDS.

Contains reading for pages. Which rows there are is in harness.judging.index.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

from harness.judging.index import RunRow, index

MAX_AGE_SECONDS: Final = 2.0
"""Reading the table of 10,000 runs takes about a second."""


class ServedStore:
    """A store whose rows several threads read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._read: tuple[float, dict[str, RunRow]] | None = None

    def rows(self) -> dict[str, RunRow]:
        """The rows by name, oldest first, at most MAX_AGE_SECONDS old; also those of runs that were removed."""
        with self._lock:
            if self._read is None or time.monotonic() - self._read[0] > MAX_AGE_SECONDS:
                rows = {row.run: row for row in index(self.path, with_pruned=True)}
                self._read = time.monotonic(), rows
            return self._read[1]
