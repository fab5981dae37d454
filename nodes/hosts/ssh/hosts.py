"""Hosts as machines of an inventory: each has one SSH connection, and the run has a directory on each.

A lease on each machine undoes everything there when the controller disconnects or dies. The lease is a shell that reads
heartbeats from the controller. Once they stop, it kills the node's server, deletes our nft table and removes the pid
file. `heal` does the same over new connections. The controller reads a node's files in its view's mirror.

    async with SshHosts.up(Inventory.read(path), "run-7", run.path / "nodes") as hosts:
        await hosts.mirror(1, [Path("server.log")])
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from harness.model import BadInput, EnvironmentFailure
from harness.model.hosts import HostView
from nodes.hosts.links import TABLE
from nodes.hosts.ssh.connection import SshConnection
from nodes.hosts.ssh.inventory import Inventory, InventoryHost
from nodes.hosts.ssh.mirror import SshMirror
from nodes.hosts.ssh.scripts import HEAL, LEASE
from nodes.hosts.ssh.stream import LineStream

HEARTBEAT_SECONDS = 5.0
SILENCE_SECONDS = 60.0
"""How long a machine waits for a heartbeat before it considers its controller dead, even if the connection is up."""
LEASE_SECONDS = 20.0
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SshHost:
    """harness.model.hosts.Host on another machine."""

    view: HostView
    connection: SshConnection
    translate: Callable[[Sequence[str]], list[str]]
    """Translates a command of the controller to the machine's paths."""

    async def write(self, path: Path, text: str) -> None:
        """Write a small file and create its missing parent folders."""
        await asyncio.to_thread(self.connection.write, path, text.encode())

    async def run(self, argv: Sequence[str], timeout_seconds: float = 60.0) -> str:
        """Run a short command there; its standard output."""
        return await asyncio.to_thread(self.connection.run, self.translate(argv), b"", timeout_seconds)

    async def put(self, source: Path, target: Path) -> None:
        """Copy a file or a folder there."""
        await asyncio.to_thread(self.connection.put, source, target)

    async def get(self, source: Path, target: Path) -> None:
        """Copy a file or a folder from there."""
        await asyncio.to_thread(self.connection.get, source, target)


class SshHosts:
    """The machines of an inventory, inside the block that up() opens."""

    def __init__(self, inventory: Inventory, views: dict[int, HostView]) -> None:
        self.views = views
        self.machines = dict(zip(views, inventory.hosts, strict=True))
        self._connections = {node: SshConnection(machine) for node, machine in self.machines.items()}
        self._leases: dict[int, _Lease] = {}
        self._mirrors: dict[int, SshMirror] = {}
        self._uploads: dict[str, str] = {}  # uploaded folders of the controller, and their names on the machines

    @classmethod
    @asynccontextmanager
    async def up(cls, inventory: Inventory, run_name: str, mirror_directory: Path) -> AsyncIterator[SshHosts]:
        """Connect to the machines and hold their leases; at the end of the block nothing of ours remains there.

        The nodes' directories are then fetched into mirror_directory and removed from the machines. Raises BadInput for
        an invalid run name, EnvironmentFailure if a machine cannot be prepared.
        """
        check_run_name(run_name)
        views = {
            node: _view(node, machine, run_name, mirror_directory) for node, machine in enumerate(inventory.hosts, 1)
        }
        hosts = cls(inventory, views)
        try:
            await _all(asyncio.to_thread(connection.open) for connection in hosts._connections.values())
            await _all(hosts._hold(node) for node in views)
            yield hosts
        finally:
            await hosts._leave()

    def host(self, node: int) -> SshHost:
        """The node's files and short commands."""
        return SshHost(self.views[node], self._connections[node], partial(self.translate, node))

    def translate(self, node: int, argv: Sequence[str]) -> list[str]:
        """A command with the paths of a node's machine: its own interpreter and the uploaded folders."""
        paths = {sys.executable: self.machines[node].python}
        paths |= {path: f"{_uploads(self.views[node])}/{name}" for path, name in self._uploads.items()}
        for local, remote in paths.items():
            argv = [argument.replace(local, remote) for argument in argv]
        return list(argv)

    async def upload(self, path: Path) -> None:
        """Copy a folder of the controller to every machine; it is removed at the end of the block."""
        name = f"{len(self._uploads)}-{path.name}"
        self._uploads[str(path)] = name
        await _all(self.host(node).put(path, Path(_uploads(view), name)) for node, view in self.views.items())

    def connection(self, node: int) -> SshConnection:
        """The connection to the node's machine; its calls block."""
        return self._connections[node]

    async def mirror(self, node: int, files: Sequence[Path]) -> None:
        """Keep copies of these files, relative to the node's directory, up to date in its view's mirror."""
        assert node not in self._mirrors, f"n{node}'s files are mirrored already"
        self._mirrors[node] = await SshMirror.start(self._connections[node], self.views[node], files)

    async def fetch(self, node: int) -> None:
        """Copy a node's whole directory into its view's mirror and stop updating the mirror."""
        if node in self._mirrors:
            await self._mirrors.pop(node).close()
        await self.host(node).get(self.views[node].directory, self.views[node].mirror)

    async def _hold(self, node: int) -> None:
        self._leases[node] = await _Lease.take(self._connections[node], self.views[node])

    async def _leave(self) -> None:
        """End every lease, fetch the nodes' directories, and close the connections."""
        try:
            await _all(self._leave_node(node) for node in self._leases)
        finally:
            for mirror in self._mirrors.values():
                await mirror.close()
            await asyncio.gather(*(asyncio.to_thread(each.close) for each in self._connections.values()))

    async def _leave_node(self, node: int) -> None:
        await self._leases[node].end()
        await self.fetch(node)
        remove = 'rm -rf -- "$0" "$0.uploads"; rmdir -- "$(dirname -- "$0")" 2>/dev/null; exit 0'
        await self.host(node).run(["sh", "-c", remove, str(self.views[node].directory)])


class _Lease:
    """A dead man's switch on one machine."""

    def __init__(self, machine: InventoryHost) -> None:
        self._machine = machine
        self._reported: set[str] = set()
        self._stream: LineStream
        self._heartbeats: asyncio.Task[None]

    @staticmethod
    async def take(connection: SshConnection, view: HostView) -> _Lease:
        """Take a lease on the node's directory, which is created if it does not exist. Raises EnvironmentFailure."""
        lease = _Lease(connection.host)
        arguments = [str(view.directory), TABLE, f"{SILENCE_SECONDS:g}", _privilege(connection.host)]
        channel = await asyncio.to_thread(connection.stream, ["sh", "-c", LEASE, "lease", *arguments])
        lease._stream = LineStream(channel, lease._on_line)
        await lease._until("held", "taking the lease of")
        lease._heartbeats = asyncio.create_task(lease._send_heartbeats())
        return lease

    async def end(self) -> None:
        """Make the machine undo everything of ours; returns when it has. Raises EnvironmentFailure."""
        self._heartbeats.cancel()
        await asyncio.gather(self._heartbeats, return_exceptions=True)
        try:
            await self._stream.end_input()
        except OSError as error:
            raise EnvironmentFailure(f"ending the lease of {self._machine}: the connection is lost: {error}") from error
        await self._until("undone", "ending the lease of")
        await self._stream.close()

    def _on_line(self, line: str) -> None:
        self._reported.add(line)

    async def _until(self, report: str, what: str) -> None:
        deadline = asyncio.get_running_loop().time() + LEASE_SECONDS
        while report not in self._reported:
            if self._stream.ended.is_set() or asyncio.get_running_loop().time() > deadline:
                raise EnvironmentFailure(
                    f"{what} {self._machine}: expected it to report {report!r}; clean up with `splitbrain heal`"
                )
            await asyncio.sleep(0.002)

    async def _send_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self._stream.send("heartbeat")


def check_run_name(run_name: str) -> str:
    """The run's name, if it is valid. Raises BadInput."""
    if not RUN_NAME.fullmatch(run_name):
        raise BadInput(f"a run's name: expected letters, digits, '.', '_' and '-', got {run_name!r}")
    return run_name


def heal(inventory: Inventory, run_name: str) -> None:
    """Undo on every machine whatever a run left there; can be repeated.

    Raises EnvironmentFailure if a machine cannot be reached, after all others have been healed.
    """
    check_run_name(run_name)

    def undo(node: int, machine: InventoryHost) -> None:
        with closing(SshConnection(machine)) as connection:
            connection.open()
            directory = str(_directory(node, machine, run_name))
            connection.run(["sh", "-c", HEAL, "heal", directory, TABLE, _privilege(machine)])

    with ThreadPoolExecutor(max_workers=8) as threads:
        for done in [threads.submit(undo, *each) for each in enumerate(inventory.hosts, 1)]:
            done.result()


def _privilege(machine: InventoryHost) -> str:
    return "sudo -n" if machine.sudo else ""


def _directory(node: int, machine: InventoryHost, run_name: str) -> Path:
    return Path(machine.directory) / run_name / f"n{node}"


def _view(node: int, machine: InventoryHost, run_name: str, mirror_directory: Path) -> HostView:
    mirror = mirror_directory / f"n{node}"
    return HostView(node, machine.dial_address, machine.name, _directory(node, machine, run_name), mirror=mirror)


def _uploads(view: HostView) -> str:
    """The folder for uploads: beside the node's directory, because that one is fetched at the end."""
    return f"{view.directory}.uploads"


async def _all(steps: Iterable[Awaitable[T]]) -> None:
    """Wait for all steps, then raise the first failure."""
    for outcome in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
