"""Reads a channel's output line by line in a thread of its own and delivers the lines on the event loop's thread.

paramiko's reads block. One thread per stream keeps them off the event loop and off the thread pool that short commands
use.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

CHUNK_BYTES = 1 << 16
END_SECONDS = 5.0
"""How long the remote end may run after its input ended before its channel is closed."""


class LineStream:
    """The lines of one channel, until its remote end ends or close()."""

    def __init__(self, channel: Any, on_line: Callable[[str], None]) -> None:
        """on_line is called on the event loop's thread with each line, without its line end."""
        self._channel = channel
        self._on_line = on_line
        self._loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        """Set after the last line was delivered."""
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    async def send(self, line: str) -> None:
        """Send a line to the remote end's standard input. Raises OSError if the connection is lost."""
        await asyncio.to_thread(self._channel.sendall, f"{line}\n".encode())

    async def end_input(self) -> None:
        """Close the remote end's standard input."""
        await asyncio.to_thread(self._channel.shutdown_write)

    async def close(self) -> None:
        """Close the remote end's input, wait for it to end, and close the channel; can be repeated."""
        with suppress(OSError, TimeoutError):
            await self.end_input()
            await asyncio.wait_for(self.ended.wait(), END_SECONDS)
        await asyncio.to_thread(self._channel.close)
        await self.ended.wait()

    def _follow(self) -> None:
        rest = b""
        with suppress(OSError):  # a lost connection ends the stream
            while chunk := self._channel.recv(CHUNK_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._call(self._on_line, line.decode(errors="replace"))
        self._call(self.ended.set)

    def _call(self, callback: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the event loop is closed, so there is no listener
            self._loop.call_soon_threadsafe(callback, *arguments)
