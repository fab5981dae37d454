"""Hosts as machines of an inventory, each over one SSH connection, its node in a directory of the run's own.

A lease on each machine undoes everything there when the controller leaves, in good order or not: a shell that reads
beats from the controller and, once they stop, kills the node's server, deletes our nft table and removes the pid file.
`heal` does the same by new connections. What the controller reads of a node is in its view's mirror.

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

BEAT_SECONDS = 5.0
SILENCE_SECONDS = 60.0
"""How long a machine waits for a beat before it takes its controller to be gone, though the connection seems whole."""
LEASE_SECONDS = 20.0
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SshHost:
    """harness.model.hosts.Host on another machine."""

    view: HostView
    connection: SshConnection
    there: Callable[[Sequence[str]], list[str]]
    """What a command of the controller's is called over there."""

    async def write(self, path: Path, text: str) -> None:
        """Write a small file, folders on its way included."""
        await asyncio.to_thread(self.connection.write, path, text.encode())

    async def run(self, argv: Sequence[str], timeout_seconds: float = 60.0) -> str:
        """Run a short command there; its standard output."""
        return await asyncio.to_thread(self.connection.run, self.there(argv), b"", timeout_seconds)

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
        self._lent: dict[str, str] = {}  # folders of the controller's, and what they are called in a node's directory

    @classmethod
    @asynccontextmanager
    async def up(cls, inventory: Inventory, run_name: str, mirror_directory: Path) -> AsyncIterator[SshHosts]:
        """Connect to the machines and hold their leases; leave nothing of ours there at the end of the block.

        A node's directory is fetched into mirror_directory then, and removed over there. Raises BadInput for a run name
        that is no plain one, EnvironmentFailure for what the machines lack or refuse.
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
        return SshHost(self.views[node], self._connections[node], partial(self.there, node))

    def there(self, node: int, argv: Sequence[str]) -> list[str]:
        """A command as it is called on a node's machine: by its own interpreter, with lent folders where they are."""
        paths = {sys.executable: self.machines[node].python}
        paths |= {path: f"{_lent(self.views[node])}/{name}" for path, name in self._lent.items()}
        for path, place in paths.items():
            argv = [word.replace(path, place) for word in argv]
        return list(argv)

    async def lend(self, path: Path) -> None:
        """Copy a folder of the controller's to every machine, for as long as the block lasts."""
        name = f"{len(self._lent)}-{path.name}"
        self._lent[str(path)] = name
        await _all(self.host(node).put(path, Path(_lent(view), name)) for node, view in self.views.items())

    def connection(self, node: int) -> SshConnection:
        """The connection to the node's machine; its calls block."""
        return self._connections[node]

    async def mirror(self, node: int, files: Sequence[Path]) -> None:
        """Keep these files of a node, relative to its directory, fresh in its view's mirror until the block ends."""
        assert node not in self._mirrors, f"n{node}'s files are mirrored already"
        self._mirrors[node] = await SshMirror.start(self._connections[node], self.views[node], files)

    async def fetch(self, node: int) -> None:
        """Copy all of a node's directory into its view's mirror, compressed on the way; it is not kept fresh then."""
        if node in self._mirrors:
            await self._mirrors.pop(node).close()
        await self.host(node).get(self.views[node].directory, self.views[node].mirror)

    async def _hold(self, node: int) -> None:
        self._leases[node] = await _Lease.take(self._connections[node], self.views[node])

    async def _leave(self) -> None:
        """End every lease, keep what the nodes leave, and close the connections."""
        try:
            await _all(self._leave_node(node) for node in self._leases)
        finally:
            for mirror in self._mirrors.values():
                await mirror.close()
            await asyncio.gather(*(asyncio.to_thread(each.close) for each in self._connections.values()))

    async def _leave_node(self, node: int) -> None:
        await self._leases[node].end()
        await self.fetch(node)
        tidy = 'rm -rf -- "$0" "$0.lent"; rmdir -- "$(dirname -- "$0")" 2>/dev/null; exit 0'
        await self.host(node).run(["sh", "-c", tidy, str(self.views[node].directory)])


class _Lease:
    """A dead man's switch on one machine."""

    def __init__(self, machine: InventoryHost) -> None:
        self._machine = machine
        self._said: set[str] = set()
        self._stream: LineStream
        self._beats: asyncio.Task[None]

    @staticmethod
    async def take(connection: SshConnection, view: HostView) -> _Lease:
        """Hold the node's directory on a machine, which is made where it is not there."""
        lease = _Lease(connection.host)
        words = [str(view.directory), TABLE, f"{SILENCE_SECONDS:g}", _privilege(connection.host)]
        channel = await asyncio.to_thread(connection.stream, ["sh", "-c", LEASE, "lease", *words])
        lease._stream = LineStream(channel, lease._hear)
        await lease._until("held", "taking the lease of")
        lease._beats = asyncio.create_task(lease._beat())
        return lease

    async def end(self) -> None:
        """Let the machine undo everything of ours, and return when it has."""
        self._beats.cancel()
        await asyncio.gather(self._beats, return_exceptions=True)
        try:
            await self._stream.end_input()
        except OSError as error:
            raise EnvironmentFailure(f"leaving {self._machine}: the connection is gone: {error}") from error
        await self._until("undone", "leaving")
        await self._stream.close()

    def _hear(self, line: str) -> None:
        self._said.add(line)

    async def _until(self, word: str, what: str) -> None:
        deadline = asyncio.get_running_loop().time() + LEASE_SECONDS
        while word not in self._said:
            if self._stream.ended.is_set() or asyncio.get_running_loop().time() > deadline:
                raise EnvironmentFailure(f"{what} {self._machine}: it did not say {word!r}; `splitbrain heal` undoes")
            await asyncio.sleep(0.002)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            await self._stream.send("beat")


def check_run_name(run_name: str) -> str:
    """The run's name, if it can be one. Raises BadInput."""
    if not RUN_NAME.fullmatch(run_name):
        raise BadInput(f"a run's name: expected letters, digits, '.', '_' and '-', came {run_name!r}")
    return run_name


def heal(inventory: Inventory, run_name: str) -> None:
    """Undo on every machine what a run may have left; harmless twice.

    Raises EnvironmentFailure where a machine is not reached, once the others have been healed.
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
    return HostView(node, machine.dialled, machine.name, _directory(node, machine, run_name), mirror=mirror)


def _lent(view: HostView) -> str:
    """Beside the node's directory, which is brought home in the end, as these folders need not be."""
    return f"{view.directory}.lent"


async def _all(deeds: Iterable[Awaitable[T]]) -> None:
    """Let all end, whatever becomes of some, then raise the first failure."""
    for outcome in await asyncio.gather(*deeds, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
