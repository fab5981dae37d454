"""Servers on machines that are reached by SSH: launched, signalled and watched by shells over there.

A life of a server is one channel: its far end starts the server, tells its pid, each change of its state as /proc has
it, and its end. The pid file that the lease goes by is written before the server begins.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from functools import partial

from harness.model import EnvironmentFailure
from harness.model.hosts import HostView
from harness.model.systems import NodeCommand, NodeSystem
from nodes.hosts.processes import LOG_NAME, ProcessEvent, Server, ServerProcesses, ending_as_shells_tell
from nodes.hosts.ssh.connection import SshConnection
from nodes.hosts.ssh.hosts import SshHosts
from nodes.hosts.ssh.scripts import LIFE, SIGNAL
from nodes.hosts.ssh.stream import LineStream

LAUNCH_SECONDS = 20.0
LOST = "connection lost"


class SshProcesses(ServerProcesses):
    """The Processes capability of SSH hosts; pid() is the pid over there."""

    def __init__(self, hosts: SshHosts, system: NodeSystem, on_event: ProcessEvent) -> None:
        super().__init__(hosts.views, system, on_event, partial(_launch, hosts))


class _Remote:
    """A server on another machine, as its channel tells of it."""

    def __init__(self, connection: SshConnection, view: HostView) -> None:
        self._connection = connection
        self._view = view
        self._told: dict[str, str] = {}  # the last word of each kind: pid, state, ended
        self._stream: LineStream

    @property
    def pid(self) -> int:
        return int(self._told["pid"])

    @property
    def state(self) -> str:
        return "gone" if "ended" in self._told or self._stream.ended.is_set() else self._told.get("state", "running")

    async def signal(self, how: signal.Signals) -> None:
        name = how.name.removeprefix("SIG")
        argv = ["sh", "-c", SIGNAL, "signal", str(self._view.directory), name]
        await asyncio.to_thread(self._connection.run, argv)

    async def wait(self) -> str:
        await self._stream.ended.wait()
        await self._stream.close()
        if "ended" not in self._told:
            return LOST
        code = int(self._told["ended"])
        return ending_as_shells_tell(code)

    async def begin(self, command: NodeCommand) -> None:
        """Start the server, and return when its pid is told."""
        settings = [f"{name}={value}" for name, value in command.environment.items()]
        words = [str(self._view.directory), LOG_NAME, "env", *settings, *command.argv]
        channel = await asyncio.to_thread(self._connection.stream, ["sh", "-c", LIFE, "life", *words])
        self._stream = LineStream(channel, self._hear)
        deadline = asyncio.get_running_loop().time() + LAUNCH_SECONDS
        while "pid" not in self._told:
            if self._stream.ended.is_set() or asyncio.get_running_loop().time() > deadline:
                raise EnvironmentFailure(
                    f"starting n{self._view.node}'s server on {self._connection.host}: no pid came"
                )
            await asyncio.sleep(0.001)

    def _hear(self, line: str) -> None:
        kind, _, value = line.rpartition(" ")
        self._told[kind or "state"] = value


async def _launch(hosts: SshHosts, view: HostView, command: NodeCommand) -> Server:
    server = _Remote(hosts.connection(view.node), view)
    await server.begin(replace(command, argv=hosts.there(view.node, command.argv)))
    return server
