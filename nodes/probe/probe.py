"""harness.model.faults.probe.Probe of nodes that speak Kafka's protocol.

Each request has a connection of its own, which is closed after it: a response always belongs to its request, and a node
sees a new client each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

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

    async def close(self) -> None:
        """Close the connections that facts come from."""
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

    async def run_tool(self, tool: str, arguments: Sequence[str], timeout_seconds: float) -> ToolResult:
        """Run a tool until it ends, or kill it at the deadline."""
        return await run_to_end(self._tool(tool, arguments), timeout_seconds)


async def run_to_end(argv: Sequence[str], timeout_seconds: float) -> ToolResult:
    """Run a command; at the deadline kill its process, and no other. Raises EnvironmentFailure if it does not start."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise EnvironmentFailure(f"starting {argv[0]}: {error.strerror or error}") from error
    assert process.stdout is not None, "the output is a pipe"
    printed = bytearray()
    reading = asyncio.create_task(_read_into(printed, process.stdout))
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


async def _read_into(printed: bytearray, stream: asyncio.StreamReader) -> None:
    while chunk := await stream.read(1 << 16):
        printed += chunk
