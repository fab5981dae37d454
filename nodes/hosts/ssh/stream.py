"""Follows a channel's output line by line, in a thread of its own, and tells each line on the event loop's thread.

paramiko's reads block; a thread a stream keeps them off the loop, and off the pool whose threads short commands need.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

CHUNK_BYTES = 1 << 16
END_SECONDS = 5.0
"""How long a far end may take to end when its input has; then its channel is closed all the same."""


class LineStream:
    """The lines of one channel, from start() until its far end ends or close()."""

    def __init__(self, channel: Any, on_line: Callable[[str], None]) -> None:
        """on_line is called on the event loop's thread, with each line and without its end."""
        self._channel = channel
        self._on_line = on_line
        self._loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        """Set when the last line has been told."""
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    async def send(self, line: str) -> None:
        """Send a line to the far end's standard input. Raises OSError where it is gone."""
        await asyncio.to_thread(self._channel.sendall, f"{line}\n".encode())

    async def end_input(self) -> None:
        """Let the far end see the end of its standard input."""
        await asyncio.to_thread(self._channel.shutdown_write)

    async def close(self) -> None:
        """End the far end's input, let it end by that, and close the channel; harmless where it has ended."""
        with suppress(OSError, TimeoutError):
            await self.end_input()
            await asyncio.wait_for(self.ended.wait(), END_SECONDS)
        await asyncio.to_thread(self._channel.close)
        await self.ended.wait()

    def _follow(self) -> None:
        rest = b""
        with suppress(OSError):  # the connection is gone: so is the stream
            while chunk := self._channel.recv(CHUNK_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._tell(self._on_line, line.decode(errors="replace"))
        self._tell(self.ended.set)

    def _tell(self, what: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it whoever would listen
            self._loop.call_soon_threadsafe(what, *arguments)
