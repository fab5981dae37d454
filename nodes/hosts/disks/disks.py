"""The disks of namespace hosts, and what may befall them.

    async with NamespaceHosts.up(directory, nodes=3) as hosts:
        async with NamespaceDisks.up(hosts, Make("ext4", size_mib=64, layered=True), reformat, seed=7) as disks:
            …                                   # only now prepare the system: its files go onto these disks

Each node keeps its logs on a file system of its own, or in a directory of the controller's. Its server.log and its
properties stay beside it. Faults of a running node's disk are done by a layer (FUSE) between the node and the file
system: as root and not, and on any file system. The controller reads beneath the layer (HostView.mirror), so that it
never waits for a disk that hangs. Freezing a file system (fsfreeze) or choking its device (blkio) would do for some
faults, but leaves processes behind that no kill ends, and a sandbox that cannot end; remounting read-only is refused
while a server has files open.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.model import BadInput, EnvironmentFailure, PeerFailure
from harness.model.faults.disks import AT_REST, LAYERED, LIVE, FileSystem
from nodes.hosts.disks import disk_checks as disks_looks
from nodes.hosts.disks import file_damage as disks_files
from nodes.hosts.disks.disk_checks import SYNCED, UNSYNCED
from nodes.hosts.disks.layer import FaultMode
from nodes.hosts.disks.layer_process import LayerProcess
from nodes.hosts.disks.probe import look
from nodes.hosts.disks.store import BENEATH, Store
from nodes.hosts.disks.volume import LOOPED, why_not
from nodes.hosts.netns.hosts import NamespaceHosts

Reformat = Callable[[int, bool], Awaitable[None]]
"""Makes a node's empty log directory ready for the same node id, as before its first start, or as a newcomer's."""

Damage = Callable[[Path, Mapping[str, Any], random.Random], dict[str, Any]]
DAMAGES: Mapping[str, Damage] = {
    "flip_bits": disks_files.flip_bits,
    "truncate_log": disks_files.truncate_log,
    "corrupt_checkpoint": disks_files.corrupt_checkpoint,
}
MISBEHAVIOURS: Mapping[str, Callable[[Mapping[str, Any]], FaultMode]] = {
    "read_only_disk": lambda _details: FaultMode(read_only=True),
    "slow_disk": lambda details: FaultMode(delay_ms=details["delay_ms"]),
    "hang_disk": lambda _details: FaultMode(hang=True),
    "disk_errors": lambda details: FaultMode(error=details.get("error", "EIO"), rate=details["rate"]),
}


@dataclass(frozen=True, slots=True)
class Make:
    """How disks are made; layered is for stories with a deed of harness.model.faults.disks.LAYERED, and slows
    accesses.
    """

    file_system: FileSystem = "directory"
    size_mib: int = 64
    layered: bool = False


class NamespaceDisks:
    """harness.model.faults.disks.Disks of hosts that are namespaces."""

    def __init__(
        self,
        hosts: NamespaceHosts,
        make: Make,
        reformat: Reformat,
        drawn: random.Random,
        why_no_layer: str | None,
    ) -> None:
        self._hosts = hosts
        self._make = make
        self._reformat = reformat
        self._drawn = drawn
        self._why_no_layer = why_no_layer
        self._stores: dict[int, Store] = {}
        self._disturbed: set[int] = set()

    @classmethod
    @asynccontextmanager
    async def up(
        cls, hosts: NamespaceHosts, make: Make, reformat: Reformat, seed: int
    ) -> AsyncIterator[NamespaceDisks]:
        """Make each node's disk; at the end of the block what is on them stays, in plain directories.

        Raises EnvironmentFailure where such a file system cannot be had; without a layer, only its deeds are missing.
        """
        somewhere = min(hosts.views.values(), key=lambda view: view.node).directory
        reason = await why_not(make.file_system, somewhere, make.size_mib)
        if reason is not None:
            raise EnvironmentFailure(f"making {make.file_system} disks: {reason}")
        why_no_layer = await _why_no_layer(somewhere) if make.layered else "the nodes' disks were made without a layer"
        disks = cls(hosts, make, reformat, random.Random(f"disks {seed}"), why_no_layer)
        async with AsyncExitStack() as stack:
            for node, view in list(hosts.views.items()):
                kind = (make.file_system, make.size_mib, why_no_layer is None)
                disks._stores[node] = await Store.make(view.directory, *kind, seed=f"disk {seed} {node}")
                stack.push_async_callback(disks._stores[node].end)
                if why_no_layer is None:
                    hosts.read_at(node, view.directory / BENEATH)
            yield disks

    @property
    def disturbed(self) -> tuple[int, ...]:
        """The nodes whose disks do not work as they should just now."""
        return tuple(sorted(self._disturbed))

    def missing(self, deed: str) -> str | None:
        """Why a deed cannot be done on these disks, None where it can. Raises BadInput for a deed there is not."""
        if deed not in (*AT_REST, *LIVE):
            raise BadInput(f"disk deed {deed!r}: expected one of {', '.join((*AT_REST, *LIVE))}")
        kind = self._make.file_system
        if deed in LAYERED:
            return self._why_no_layer
        if deed == "fill_disk" and kind == "directory":
            return "the nodes share the controller's disk: it takes a file system of its own (tmpfs, ext4 or xfs)"
        if deed == "lose_unsynced" and kind not in LOOPED:
            return f"{kind} keeps what was not synced: it takes ext4 or xfs, on loop devices, as root"
        return None

    async def do(self, node: int, deed: str, details: Mapping[str, Any]) -> dict[str, Any]:
        """Do it to one node's disk; what was done, as JSON."""
        reason = self.missing(deed)
        if reason is not None:
            raise EnvironmentFailure(f"{deed} on n{node}: {reason}")
        store = self._stores[node]
        if deed in LIVE:
            self._disturbed.add(node)  # before it is so: what fails half-way is undone as well
        try:
            if deed in DAMAGES:
                return await asyncio.to_thread(DAMAGES[deed], store.volume.path, details, self._drawn)
            if deed in MISBEHAVIOURS:
                await store.set_fault_mode(MISBEHAVIOURS[deed](details))
                return dict(details)
            if deed == "fill_disk":
                free_bytes = details.get("free_bytes", 0)
                return {"free_bytes": free_bytes, "filled_bytes": await asyncio.to_thread(store.inflate, free_bytes)}
            return await self._lose(node, deed, details, store)
        except OSError as error:
            raise EnvironmentFailure(f"{deed} on n{node}: {error.filename or ''} {error.strerror}") from error

    async def _lose(self, node: int, deed: str, details: Mapping[str, Any], store: Store) -> dict[str, Any]:
        """Lose all, or all that is not synced; two files that the node leaves there before will tell."""
        left = await look(self._hosts, node, store.path, do="leave", synced=SYNCED, unsynced=UNSYNCED)
        if left is None:
            raise PeerFailure(f"{deed} on n{node}: its disk hangs")
        if deed == "lose_unsynced":
            await store.lose_unsynced()
            return {}
        done = await asyncio.to_thread(disks_files.wipe, store.volume.path)
        await self._reformat(node, details.get("newcomer", False))
        return done

    async def undo(self, node: int) -> None:
        """The disk works as it should again; what was lost stays lost. Harmless where nothing was done."""
        store = self._stores[node]
        store.deflate()
        if store.layer is not None:
            await store.set_fault_mode(FaultMode())
        self._disturbed.discard(node)

    async def probe(self, node: int, deed: str, done: Mapping[str, Any]) -> str | None:
        """Try the disk: None where what was done shows in what a process on the node sees, else what was seen."""
        seen = await disks_looks.LOOKS[deed](self._probe_of(node), done)
        if deed == "lose_unsynced":
            (self._stores[node].volume.path / SYNCED).unlink(missing_ok=True)
        return seen

    async def trouble(self, node: int) -> str | None:
        """Write, sync, read and remove as a process on the node would: None where all goes well and fast."""
        return await disks_looks.healthy(self._probe_of(node))

    def _probe_of(self, node: int) -> disks_looks.DiskProbe:
        path, beside = self._stores[node].path, self._hosts.views[node].directory

        async def looker(elsewhere: bool = False, **ask: Any) -> Any:
            return await look(self._hosts, node, beside if elsewhere else path, **ask)

        return looker


async def _why_no_layer(directory: Path) -> str | None:
    """Why no layer can be mounted here; None where one was, for a moment."""
    beneath, mounted = directory / "layer-trial" / "beneath", directory / "layer-trial" / "mounted"
    beneath.mkdir(parents=True, exist_ok=True)
    try:
        layer = await LayerProcess.start(beneath, mounted, "trial")
    except EnvironmentFailure as error:
        return f"{error}; it takes FUSE: as root, modprobe fuse and chmod 0666 /dev/fuse"
    await layer.end()
    for path in (mounted, beneath, beneath.parent):
        path.rmdir()
    return None
