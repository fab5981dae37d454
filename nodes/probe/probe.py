"""harness.model.faults.probe.Probe of nodes that speak Kafka's protocol.

Each request has a connection of its own, which is closed after it: a response always belongs to its request, and a node
sees a new client each time. All tools run in one temporary directory, so that one reads what another has written.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.model import EnvironmentFailure
from harness.model.faults.probe import ApiRequest, ListenerName, ToolResult
from harness.model.placeholders import Facts
from harness.model.session import Connection
from nodes.probe.facts import ClusterFacts
from nodes.wire.entities import as_json, request_of

Connect = Callable[[int, ListenerName], Connection]
"""A connection to a listener of a node, opened at its first use."""

ToolCommand = Callable[[str, Sequence[str]], list[str]]
"""The command that runs a tool with these arguments."""


class NodeProbe:
    """Asks nodes by connections, and runs tools as child processes of the controller, which reaches the nodes."""

    def __init__(self, facts: ClusterFacts, connect: Connect, tool: ToolCommand) -> None:
        self._facts = facts
        self._connect = connect
        self._tool = tool
        self._directory: TemporaryDirectory[str] | None = None  # from the first tool on

    async def close(self) -> None:
        """Close the connections that facts come from, and remove the tools' directory."""
        if self._directory is not None:
            self._directory.cleanup()
        for connection in self._facts.connections.values():
            await connection.close()

    async def facts(self, names: Collection[str], node: int | None) -> Facts:
        """The placeholders of these names, now."""
        return await self._facts.of(names, node)

    async def ask(self, node: int, request: ApiRequest, timeout_seconds: float) -> object:
        """Send one request; returns the response as JSON."""
        message = request_of(request.api, request.version, request.values)
        connection = self._connect(node, request.listener)
        try:
            return as_json(await connection.call(message, int(timeout_seconds * 1000)))
        finally:
            await connection.close()

    async def run_tool(
        self,
        tool: str,
        arguments: Sequence[str],
        timeout_seconds: float,
        files: Mapping[str, str],
        stop_at: str | None,
    ) -> ToolResult:
        """Run a tool until it ends, or kill it at the deadline."""
        if self._directory is None:
            self._directory = TemporaryDirectory(prefix="splitbrain-tools-")
        directory = Path(self._directory.name)
        for name, content in files.items():
            (directory / name).write_text(content)
        return await run_to_end(self._tool(tool, arguments), timeout_seconds, directory, stop_at)


async def run_to_end(
    argv: Sequence[str], timeout_seconds: float, directory: Path | None = None, stop_at: str | None = None
) -> ToolResult:
    """Run a command; at the deadline kill its process, and no other. Raises EnvironmentFailure if it does not start.

    stop_at is a regular expression: the process gets SIGTERM, once, when its output contains it.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise EnvironmentFailure(f"starting {argv[0]}: {error.strerror or error}") from error
    printed = bytearray()
    reading = asyncio.create_task(_read_into(printed, process, re.compile(stop_at) if stop_at else None))
    is_late = False
    try:
        async with asyncio.timeout(timeout_seconds):
            await process.wait()
    except TimeoutError:
        is_late = True
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading
    return ToolResult(None if is_late else process.returncode, printed.decode(errors="replace"))


async def _read_into(printed: bytearray, process: asyncio.subprocess.Process, stop_at: re.Pattern[str] | None) -> None:
    assert process.stdout is not None, "the output is a pipe"
    while chunk := await process.stdout.read(1 << 16):
        printed += chunk
        if stop_at is not None and stop_at.search(printed.decode(errors="replace")):
            stop_at = None
            if process.returncode is None:
                process.terminate()
