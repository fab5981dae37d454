"""The nodes' servers: start, kill, stop, pause, resume, and what the kernel says of them.

A server's standard output and error go to `server.log` in its host's directory, appended over restarts. Each start and
end is told to `on_event`, so that observers know which log lines belong to which life of a node. How a server is
launched and signalled is its hosts' affair: a child of the controller (here), in a container, or on another machine.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from harness.model import PeerFailure
from harness.model.hosts import HostView
from harness.model.systems import NodeCommand, NodeSystem
from nodes.hosts.kinds import EnterableHosts

LOG_NAME = "server.log"
SIGNAL_SECONDS = 10.0

ProcessEvent = Callable[[int, str, str], None]
"""Called with node, 'started' or 'stopped', and how."""


class Server(Protocol):
    """One life of a node's server."""

    @property
    def pid(self) -> int:
        """Its process id; on another machine, that machine's."""

    @property
    def state(self) -> str:
        """'running', 'paused' or 'gone', as the kernel tells it."""

    async def signal(self, how: signal.Signals) -> None:
        """Send it a signal; harmless where it is gone."""

    async def wait(self) -> str:
        """Wait for its end; how it came: the signal's name, or `exit` and the code."""


Launch = Callable[[HostView, NodeCommand], Awaitable[Server]]
"""Launches a node's server. Raises EnvironmentFailure."""


class ServerProcesses:
    """The Processes capability of hosts of every kind, by how one of their servers is launched."""

    def __init__(
        self, views: Mapping[int, HostView], system: NodeSystem, on_event: ProcessEvent, launch: Launch
    ) -> None:
        self._views = views
        self._system = system
        self._on_event = on_event
        self._launch = launch
        self._servers: dict[int, Server] = {}
        self._watches: dict[int, asyncio.Task[None]] = {}

    async def start(self, node: int) -> None:
        """Start the node's server; it need not be ready when this returns."""
        assert self.state(node) == "gone", f"n{node} is running already"
        view = self._views[node]
        self._servers[node] = await self._launch(view, self._system.command(view))
        self._on_event(node, "started", "")
        self._watches[node] = asyncio.create_task(self._watch(node, self._servers[node]))

    async def kill(self, node: int) -> None:
        """SIGKILL; returns when the process is gone."""
        await self._end(node, signal.SIGKILL, SIGNAL_SECONDS)

    async def stop(self, node: int) -> None:
        """SIGTERM; returns when the process is gone. Raises PeerFailure after the system's grace period."""
        grace = self._system.command(self._views[node]).grace_seconds
        await self._end(node, signal.SIGTERM, grace)

    async def pause(self, node: int) -> None:
        """SIGSTOP; returns when the process is stopped."""
        await self._signal_until(node, signal.SIGSTOP, "paused")

    async def resume(self, node: int) -> None:
        """SIGCONT; returns when the process runs again."""
        await self._signal_until(node, signal.SIGCONT, "running")

    def state(self, node: int) -> str:
        """'running', 'paused' or 'gone', as the kernel tells it."""
        server = self._servers.get(node)
        return "gone" if server is None else server.state

    def pid(self, node: int) -> int:
        """The server's process. Raises PeerFailure where it is gone."""
        if self.state(node) == "gone":
            raise PeerFailure(f"finding n{node}'s process: it is gone")
        return self._servers[node].pid

    async def kill_all(self) -> None:
        """End every server, paused ones too, and wait until they are gone."""
        alive = [node for node in self._servers if self.state(node) != "gone"]
        await asyncio.gather(*(self.kill(node) for node in alive))

    async def _end(self, node: int, how: signal.Signals, seconds: float) -> None:
        await self._servers[node].signal(how)
        try:
            await asyncio.wait_for(asyncio.shield(self._watches[node]), seconds)
        except TimeoutError as error:
            raise PeerFailure(f"ending n{node} by {how.name}: still there after {seconds:g} s") from error

    async def _watch(self, node: int, server: Server) -> None:
        """Tell the end of a server, whoever caused it."""
        self._on_event(node, "stopped", await server.wait())

    async def _signal_until(self, node: int, how: signal.Signals, state: str) -> None:
        await self._servers[node].signal(how)
        deadline = asyncio.get_running_loop().time() + SIGNAL_SECONDS
        while self.state(node) != state:
            if asyncio.get_running_loop().time() > deadline:
                raise PeerFailure(f"{how.name} to n{node}: {self.state(node)} after {SIGNAL_SECONDS:g} s, not {state}")
            await asyncio.sleep(0.001)


class ChildProcesses(ServerProcesses):
    """The Processes capability of hosts on which the controller's children run."""

    def __init__(self, hosts: EnterableHosts, system: NodeSystem, on_event: ProcessEvent) -> None:
        super().__init__(hosts.views, system, on_event, partial(_launch_child, hosts))


class _Child:
    """A server that is the controller's child."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def state(self) -> str:
        return "gone" if self._process.returncode is not None else state_of(state_letter(self.pid))

    async def signal(self, how: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(how)

    async def wait(self) -> str:
        return ending(await self._process.wait())


async def _launch_child(hosts: EnterableHosts, view: HostView, command: NodeCommand) -> Server:
    with (view.directory / LOG_NAME).open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *hosts.enter(view.node, command.argv),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=view.directory,
            env={**os.environ, **command.environment},
            start_new_session=True,
        )
    return _Child(process)


def ending(code: int) -> str:
    """How a process ended, in words; a negative code is the signal's number."""
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def ending_as_shells_tell(code: int) -> str:
    """The same of an exit code of a shell's, or of a container's engine: 128 and the number of a signal."""
    return ending(128 - code if code > 128 else code)


def state_of(letter: str) -> str:
    """'running', 'paused' or 'gone', of the state field of /proc/PID/stat (proc(5))."""
    return {"T": "paused", "t": "paused", "Z": "gone", "X": "gone", "": "gone"}.get(letter, "running")


def resident_bytes(pid: int) -> int:
    """Resident memory of a running process of this machine."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def state_letter(pid: int) -> str:
    """The state field of /proc/PID/stat (proc(5)); empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
