"""Servers on machines reached by SSH: launched, signalled and watched by shells on those machines.

Each incarnation of a server has one channel. Its remote end starts the server and reports its pid, each change of its
state in /proc, and its end. The pid file that the lease uses is written before the server starts.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from functools import partial

from harness.model import EnvironmentFailure
from harness.model.hosts import HostView
from harness.model.systems import NodeCommand
from nodes.hosts.processes import LOG_NAME, NodeCommands, ProcessEvent, Server, ServerProcesses, describe_shell_exit
from nodes.hosts.ssh.connection import SshConnection
from nodes.hosts.ssh.hosts import SshHosts
from nodes.hosts.ssh.scripts import RUN_SERVER, SIGNAL
from nodes.hosts.ssh.stream import LineStream

LAUNCH_SECONDS = 20.0
LOST = "connection lost"


class SshProcesses(ServerProcesses):
    """The Processes capability of SSH hosts; pid() is the pid on the remote machine."""

    def __init__(self, hosts: SshHosts, system: NodeCommands, on_event: ProcessEvent) -> None:
        super().__init__(hosts.views, system, on_event, partial(_launch, hosts))


class _RemoteServer:
    """A server on another machine, as reported over its channel."""

    def __init__(self, connection: SshConnection, view: HostView) -> None:
        self._connection = connection
        self._view = view
        self._reported: dict[str, str] = {}  # the latest report of each kind: pid, state, ended
        self._stream: LineStream

    @property
    def pid(self) -> int:
        return int(self._reported["pid"])

    @property
    def state(self) -> str:
        return (
            "gone"
            if "ended" in self._reported or self._stream.ended.is_set()
            else self._reported.get("state", "running")
        )

    async def signal(self, number: signal.Signals) -> None:
        name = number.name.removeprefix("SIG")
        argv = ["sh", "-c", SIGNAL, "signal", str(self._view.directory), name]
        await asyncio.to_thread(self._connection.run, argv)

    async def wait(self) -> str:
        await self._stream.ended.wait()
        await self._stream.close()
        if "ended" not in self._reported:
            return LOST
        code = int(self._reported["ended"])
        return describe_shell_exit(code)

    async def start(self, command: NodeCommand) -> None:
        """Start the server; returns when its pid is reported. Raises EnvironmentFailure."""
        variables = [f"{name}={value}" for name, value in command.environment.items()]
        arguments = [str(self._view.directory), LOG_NAME, "env", *variables, *command.argv]
        channel = await asyncio.to_thread(self._connection.stream, ["sh", "-c", RUN_SERVER, "server", *arguments])
        self._stream = LineStream(channel, self._on_line)
        deadline = asyncio.get_running_loop().time() + LAUNCH_SECONDS
        while "pid" not in self._reported:
            if self._stream.ended.is_set() or asyncio.get_running_loop().time() > deadline:
                raise EnvironmentFailure(
                    f"starting n{self._view.node}'s server on {self._connection.host}: it did not report a pid"
                )
            await asyncio.sleep(0.001)

    def _on_line(self, line: str) -> None:
        kind, _, value = line.rpartition(" ")
        self._reported[kind or "state"] = value


async def _launch(hosts: SshHosts, view: HostView, command: NodeCommand) -> Server:
    server = _RemoteServer(hosts.connection(view.node), view)
    await server.start(replace(command, argv=hosts.translate(view.node, command.argv)))
    return server
