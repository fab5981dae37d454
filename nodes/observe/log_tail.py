"""Follows a node's log file and reports its events, with the time in each line.

Only complete lines are read, as soon as they are written, or at the next poll where the kernel does not report writes.
The time of an event does not depend on this. Call read_new() once more after the node has ended, so that its last lines
are not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nodes.observe.file_writes import on_write
from nodes.observe.log_lines import LogEvent, parse_line

POLL_SECONDS = 0.1


class LogTail:
    """A position in a growing log file, which may not exist yet."""

    def __init__(self, path: Path, report: Callable[[LogEvent], None]) -> None:
        self._path = path
        self._report = report
        self._position = 0
        self._partial = b""

    async def follow(self) -> None:
        """Read new lines until cancelled."""
        written = asyncio.Event()
        with on_write(self._path.parent, written.set):
            while True:
                written.clear()
                self.read_new()
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await written.wait()

    def read_new(self) -> None:
        """Report the events in the complete lines written since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        self._position += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            event = parse_line(line.decode(errors="replace"))
            if event:
                self._report(event)
