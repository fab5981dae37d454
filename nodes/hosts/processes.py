"""The nodes' servers: start, kill, stop, pause, resume, and their state as the kernel reports it.

A server's standard output and error go to `server.log` in its host's directory, appended across restarts. `on_event`
receives each start and end, so observers know which log lines belong to which incarnation of a node, and whether an end
was requested. Each kind of host launches and signals servers in its own way: as children of the controller (here), in
containers, or on other machines.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Set
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

from harness.model import PeerFailure
from harness.model.hosts import HostView
from harness.model.systems import NodeCommand
from nodes.hosts.kinds import EnterableHosts

LOG_NAME = "server.log"
SIGNAL_SECONDS = 10.0

ProcessEvent = Callable[[int, Literal["started", "stopped", "exited"], str], None]
"""Called with the node, what happened to its server, and how the server ended ('' for a start).

'stopped' is an end that was requested here, 'exited' one that was not.
"""


class NodeCommands(Protocol):
    """Provides the command that serves each node; every harness.model.systems.NodeSystem does."""

    def command(self, host: HostView) -> NodeCommand:
        """The command that serves this node."""


class Server(Protocol):
    """One incarnation of a node's server."""

    @property
    def pid(self) -> int:
        """Its process id, on the machine where it runs."""

    @property
    def state(self) -> str:
        """'running', 'paused' or 'gone', as the kernel reports it."""

    async def signal(self, number: signal.Signals) -> None:
        """Send it a signal; does nothing if it is gone."""

    async def wait(self) -> str:
        """Wait for its end; returns the name of the signal that ended it, or `exit` and the code."""


Launch = Callable[[HostView, NodeCommand], Awaitable[Server]]
"""Launches a node's server. Raises EnvironmentFailure."""


class ServerProcesses:
    """The Processes capability, for any kind of host, on top of a function that launches one server."""

    def __init__(
        self, views: Mapping[int, HostView], system: NodeCommands, on_event: ProcessEvent, launch: Launch
    ) -> None:
        self._views = views
        self._system = system
        self._on_event = on_event
        self._launch = launch
        self._servers: dict[int, Server] = {}
        self._watches: dict[int, asyncio.Task[None]] = {}
        self._requested: dict[int, set[signal.Signals]] = {}

    async def start(self, node: int) -> None:
        """Start the node's server; it need not be ready when this returns."""
        assert self.state(node) == "gone", f"n{node} is already running"
        view = self._views[node]
        self._servers[node] = await self._launch(view, self._system.command(view))
        self._requested[node] = set()
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
        """'running', 'paused' or 'gone', as the kernel reports it."""
        server = self._servers.get(node)
        return "gone" if server is None else server.state

    def pid(self, node: int) -> int:
        """The server's process id. Raises PeerFailure if it is gone."""
        if self.state(node) == "gone":
            raise PeerFailure(f"finding n{node}'s process: it is gone")
        return self._servers[node].pid

    async def kill_all(self) -> None:
        """End every server, paused ones too, and wait until they are gone."""
        alive = [node for node in self._servers if self.state(node) != "gone"]
        await asyncio.gather(*(self.kill(node) for node in alive))

    async def _end(self, node: int, number: signal.Signals, seconds: float) -> None:
        self._requested[node].add(number)
        await self._servers[node].signal(number)
        try:
            await asyncio.wait_for(asyncio.shield(self._watches[node]), seconds)
        except TimeoutError as error:
            raise PeerFailure(f"ending n{node} with {number.name}: still running after {seconds:g} s") from error

    async def _watch(self, node: int, server: Server) -> None:
        """Report the end of a server, whatever caused it."""
        how = await server.wait()
        self._on_event(node, "stopped" if _follows(how, self._requested[node]) else "exited", how)

    async def _signal_until(self, node: int, number: signal.Signals, state: str) -> None:
        await self._servers[node].signal(number)
        deadline = asyncio.get_running_loop().time() + SIGNAL_SECONDS
        while self.state(node) != state:
            if asyncio.get_running_loop().time() > deadline:
                raise PeerFailure(
                    f"sending {number.name} to n{node}: expected it {state} after {SIGNAL_SECONDS:g} s, "
                    f"got {self.state(node)}"
                )
            await asyncio.sleep(0.001)


def _follows(how: str, requested: Set[signal.Signals]) -> bool:
    """Whether an end is what the requested signals cause: a killed server has no exit code, a stopped one may have."""
    return signal.SIGTERM in requested or (bool(requested) and not how.startswith("exit"))


class ChildProcesses(ServerProcesses):
    """The Processes capability of hosts on which the controller's children run."""

    def __init__(self, hosts: EnterableHosts, system: NodeCommands, on_event: ProcessEvent) -> None:
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

    async def signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def wait(self) -> str:
        return describe_exit(await self._process.wait())


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


def describe_exit(code: int) -> str:
    """The signal's name for a negative code, else `exit` and the code."""
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def describe_shell_exit(code: int) -> str:
    """As describe_exit, for the exit code of a shell or a container engine: 128 plus the signal's number."""
    return describe_exit(128 - code if code > 128 else code)


def state_of(letter: str) -> str:
    """'running', 'paused' or 'gone', from the state field of /proc/PID/stat (proc(5))."""
    return {"T": "paused", "t": "paused", "Z": "gone", "X": "gone", "": "gone"}.get(letter, "running")


def resident_bytes(pid: int) -> int:
    """Resident memory of a running process of this machine."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def state_letter(pid: int) -> str:
    """The state field of /proc/PID/stat (proc(5)); empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
