"""The controller's handle on the proxy's process: start it, send requests, end it.

Contains the process and its control channel; nodes.proxy.control defines the requests. Does not know nodes.
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
from nodes.hosts.processes import describe_exit
from nodes.proxy.control import LINE_BYTES_MAX

RESPONSE_SECONDS = 10.0
END_SECONDS = 1.0


class ProxyProcess:
    """A proxy process and its control channel."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self.process = process
        self._control = control
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()
        self._is_silent = False  # a response is missing, so later responses cannot be matched to requests

    @classmethod
    async def start(cls) -> ProxyProcess:
        """Start the process; it waits for its configuration."""
        control, inherited = socket.socketpair()
        with inherited:
            argv = [sys.executable, "-P", "-m", "nodes.proxy", str(inherited.fileno())]
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.DEVNULL, pass_fds=[inherited.fileno()], start_new_session=True
            )
        return cls(process, control)

    @property
    def is_alive(self) -> bool:
        """Whether the process runs and has responded to every request."""
        return self.process.returncode is None and not self._is_silent

    async def request(self, **request: Any) -> Mapping[str, Any]:
        """Send a request; returns its response.

        Raises BadInput with the proxy's message for an invalid request, EnvironmentFailure if the proxy is gone; its
        rules, their counters and the messages that it held are then lost.
        """
        async with self._turn:
            line = await self._exchange(json.dumps(request).encode() + b"\n") if self.is_alive else b""
        if not line:
            self._is_silent = True
            raise EnvironmentFailure(
                f"requesting {', '.join(request)} from the proxy: expected its process {self.process.pid} to respond, "
                f"but {await self._end_of_process()}; its rules and their counters are lost"
            )
        response: Mapping[str, Any] = json.loads(line)
        if "error" in response:
            raise BadInput(str(response["error"]))
        return response

    async def _exchange(self, request: bytes) -> bytes:
        """The line of the response; empty if there is none."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(RESPONSE_SECONDS):
                if self._streams is None:
                    self._streams = await asyncio.open_unix_connection(sock=self._control, limit=LINE_BYTES_MAX)
                reader, writer = self._streams
                writer.write(request)
                return await reader.readline()
        return b""

    async def _end_of_process(self) -> str:
        """How the process ended, or that it still runs; its socket closes a moment before its end is known."""
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                return f"it has ended ({describe_exit(await self.process.wait())})"
        return f"it gave no response in {RESPONSE_SECONDS:g} s"

    async def end(self) -> None:
        """Close the control channel, which ends the proxy; kill it if it does not end in time."""
        if self._streams is not None:
            self._streams[1].close()
        self._control.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(RESPONSE_SECONDS):
                await self.process.wait()
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
