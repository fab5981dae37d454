"""The nodes' servers as the controller's children: start, kill, stop, pause, resume, and what the kernel says of them.

A server's standard output and error go to `server.log` in its host's directory, appended over restarts. Each start and
end is told to `on_event`, so that observers know which log lines belong to which life of a node.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

from harness.model import PeerFailure
from harness.model.systems import System
from nodes.hosts.kinds import EnterableHosts

LOG_NAME = "server.log"
SIGNAL_SECONDS = 10.0

ProcessEvent = Callable[[int, str, str], None]
"""Called with node, 'started' or 'stopped', and how."""


class ChildProcesses:
    """The Processes capability of hosts on which the controller's children run."""

    def __init__(self, hosts: EnterableHosts, system: System, on_event: ProcessEvent) -> None:
        self._hosts = hosts
        self._system = system
        self._on_event = on_event
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._watches: dict[int, asyncio.Task[None]] = {}

    async def start(self, node: int) -> None:
        """Start the node's server; it need not be ready when this returns."""
        assert self.state(node) == "gone", f"n{node} is running already"
        view = self._hosts.views[node]
        command = self._system.command(view)
        with (view.directory / LOG_NAME).open("ab") as log:
            self._running[node] = await asyncio.create_subprocess_exec(
                *self._hosts.enter(node, command.argv),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=view.directory,
                env={**os.environ, **command.environment},
                start_new_session=True,
            )
        self._on_event(node, "started", "")
        self._watches[node] = asyncio.create_task(self._watch(node, self._running[node]))

    async def kill(self, node: int) -> None:
        """SIGKILL; returns when the process is gone."""
        await self._end(node, signal.SIGKILL, SIGNAL_SECONDS)

    async def stop(self, node: int) -> None:
        """SIGTERM; returns when the process is gone. Raises PeerFailure after the system's grace period."""
        grace = self._system.command(self._hosts.views[node]).grace_seconds
        await self._end(node, signal.SIGTERM, grace)

    async def pause(self, node: int) -> None:
        """SIGSTOP; returns when the process is stopped."""
        await self._signal_until(node, signal.SIGSTOP, "paused")

    async def resume(self, node: int) -> None:
        """SIGCONT; returns when the process runs again."""
        await self._signal_until(node, signal.SIGCONT, "running")

    def state(self, node: int) -> str:
        """'running', 'paused' or 'gone', from /proc."""
        process = self._running.get(node)
        if process is None or process.returncode is not None:
            return "gone"
        letter = _state_letter(process.pid)
        return {"T": "paused", "t": "paused", "Z": "gone", "X": "gone", "": "gone"}.get(letter, "running")

    def pid(self, node: int) -> int:
        """The server's process. Raises PeerFailure where it is gone."""
        if self.state(node) == "gone":
            raise PeerFailure(f"finding n{node}'s process: it is gone")
        return self._running[node].pid

    def resident_bytes(self, node: int) -> int:
        """Resident memory of a running server."""
        pages = int(Path(f"/proc/{self._running[node].pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    async def kill_all(self) -> None:
        """End every server, paused ones too, and wait until they are gone."""
        alive = [node for node in self._running if self.state(node) != "gone"]
        await asyncio.gather(*(self.kill(node) for node in alive))

    async def _end(self, node: int, how: signal.Signals, seconds: float) -> None:
        process = self._running[node]
        if process.returncode is None:
            process.send_signal(how)
        try:
            await asyncio.wait_for(asyncio.shield(self._watches[node]), seconds)
        except TimeoutError as error:
            raise PeerFailure(f"ending n{node} by {how.name}: still there after {seconds:g} s") from error

    async def _watch(self, node: int, process: asyncio.subprocess.Process) -> None:
        """Tell the end of a server, whoever caused it."""
        code = await process.wait()
        self._on_event(node, "stopped", signal.Signals(-code).name if code < 0 else f"exit {code}")

    async def _signal_until(self, node: int, how: signal.Signals, state: str) -> None:
        self._running[node].send_signal(how)
        deadline = asyncio.get_running_loop().time() + SIGNAL_SECONDS
        while self.state(node) != state:
            if asyncio.get_running_loop().time() > deadline:
                raise PeerFailure(f"{how.name} to n{node}: {self.state(node)} after {SIGNAL_SECONDS:g} s, not {state}")
            await asyncio.sleep(0.001)


def _state_letter(pid: int) -> str:
    """The state field of /proc/PID/stat (proc(5)); empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
