"""Follows a node's log file and tells each event in it, at the time the line itself gives.

The file is read from where the last look ended, whole lines only; how often one looks changes how soon an event is
told, never its time. read_rest() is called once the node is gone, so that its last words are not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from nodes.observe.log_lines import LogEvent, read_line

LOOK_SECONDS = 0.1


class LogTail:
    """A position in a growing log file that need not exist yet."""

    def __init__(self, path: Path, tell: Callable[[LogEvent], None]) -> None:
        self._path = path
        self._tell = tell
        self._position = 0
        self._partial = b""

    async def follow(self) -> None:
        """Read what comes until cancelled."""
        while True:
            self.read_rest()
            await asyncio.sleep(LOOK_SECONDS)

    def read_rest(self) -> None:
        """Tell the events in all whole lines written since the last look."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        self._position += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            event = read_line(line.decode(errors="replace"))
            if event:
                self._tell(event)
