"""The proxy's process as its starter sees it: start it, ask it, end it.

What may live here: the process and the line to it (nodes.proxy.control says what goes over it). What may not: nodes.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from harness.model import BadInput, EnvironmentFailure
from nodes.proxy.control import LINE_BYTES_MAX

ANSWER_SECONDS = 10.0


class ProxyProcess:
    """The proxy from its start to its end, and the line to it."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self.process = process
        self._control = control
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()
        self._is_lost = False  # it did not answer once: whatever it says later answers nothing that we ask

    @classmethod
    async def start(cls) -> ProxyProcess:
        """It waits for its first request."""
        ours, theirs = socket.socketpair()
        with theirs:
            argv = [sys.executable, "-P", "-m", "nodes.proxy", str(theirs.fileno())]
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True
            )
        return cls(process, ours)

    @property
    def is_alive(self) -> bool:
        """Whether it runs and has answered whenever it was asked."""
        return self.process.returncode is None and not self._is_lost

    async def ask(self, **request: Any) -> Mapping[str, Any]:
        """One request, one answer. Raises BadInput with the proxy's words, EnvironmentFailure where it is gone."""
        async with self._turn:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    line = await self._exchange(json.dumps(request).encode() + b"\n")
            except (OSError, TimeoutError) as error:
                self._is_lost = True
                raise EnvironmentFailure(f"asking the proxy: no answer ({error or 'in time'})") from error
        if not line:
            self._is_lost = True
            raise EnvironmentFailure(f"asking the proxy to {', '.join(request)}: it has ended")
        answer: Mapping[str, Any] = json.loads(line)
        if "error" in answer:
            raise BadInput(str(answer["error"]))
        return answer

    async def _exchange(self, request: bytes) -> bytes:
        if self._streams is None:
            self._streams = await asyncio.open_unix_connection(sock=self._control, limit=LINE_BYTES_MAX)
        reader, writer = self._streams
        writer.write(request)
        return await reader.readline()

    async def end(self) -> None:
        """Close the line, upon which the proxy ends; a proxy that does not is killed."""
        if self._streams is not None:
            self._streams[1].close()
        self._control.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self.process.wait()
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
