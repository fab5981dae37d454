"""The disks of namespace hosts, and their faults.

    async with NamespaceHosts.up(directory, nodes=3) as hosts:
        async with NamespaceDisks.up(hosts, DiskSpec("ext4", size_mib=64, layered=True), reformat, seed=7) as disks:
            …                                   # prepare the system only now: its files go onto these disks

Each node keeps its logs on a file system of its own or in a directory on the controller's disk. Its server.log and
properties files are outside that disk. A FUSE layer between the node and the file system injects the faults of a
running node's disk; it works with and without root and on any file system. The controller reads the files below the
layer (HostView.mirror), so it never waits for a hanging disk. fsfreeze or blkio could inject some of these faults, but
they leave processes that cannot be killed and thus a sandbox that cannot end. The kernel refuses to remount read-only
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
from nodes.hosts.disks import disk_checks, file_damage
from nodes.hosts.disks.disk_checks import SYNCED, UNSYNCED
from nodes.hosts.disks.layer import FaultMode
from nodes.hosts.disks.layer_process import LayerProcess
from nodes.hosts.disks.node_disk import BACKING_FOLDER, NodeDisk
from nodes.hosts.disks.probe import run_probe
from nodes.hosts.disks.volume import LOOPED, why_unavailable
from nodes.hosts.netns.hosts import NamespaceHosts

Reformat = Callable[[int, bool], Awaitable[None]]
"""Formats a node's empty log directory for the same node id, as before its first start; True formats a newcomer's."""

Damage = Callable[[Path, Mapping[str, Any], random.Random], dict[str, Any]]
DAMAGES: Mapping[str, Damage] = {
    "flip_bits": file_damage.flip_bits,
    "truncate_log": file_damage.truncate_log,
    "corrupt_checkpoint": file_damage.corrupt_checkpoint,
}
FAULT_MODES: Mapping[str, Callable[[Mapping[str, Any]], FaultMode]] = {
    "read_only_disk": lambda _details: FaultMode(read_only=True),
    "slow_disk": lambda details: FaultMode(delay_ms=details["delay_ms"]),
    "hang_disk": lambda _details: FaultMode(hang=True),
    "disk_errors": lambda details: FaultMode(error=details.get("error", "EIO"), rate=details["rate"]),
}


@dataclass(frozen=True, slots=True)
class DiskSpec:
    """How to create disks. Faults of harness.model.faults.disks.LAYERED need layered, which slows down each access."""

    file_system: FileSystem = "directory"
    size_mib: int = 64
    layered: bool = False


class NamespaceDisks:
    """harness.model.faults.disks.Disks for namespace hosts."""

    def __init__(
        self,
        hosts: NamespaceHosts,
        spec: DiskSpec,
        reformat: Reformat,
        random_source: random.Random,
        layer_refusal: str | None,
    ) -> None:
        self._hosts = hosts
        self._spec = spec
        self._reformat = reformat
        self._random_source = random_source
        self._layer_refusal = layer_refusal
        self._disks: dict[int, NodeDisk] = {}
        self._faulty: set[int] = set()

    @classmethod
    @asynccontextmanager
    async def up(
        cls, hosts: NamespaceHosts, spec: DiskSpec, reformat: Reformat, seed: int
    ) -> AsyncIterator[NamespaceDisks]:
        """Create each node's disk; at the end of the block their files remain in plain directories.

        Raises EnvironmentFailure if the file system is not available. If no layer can be mounted, only the faults that
        need one are missing.
        """
        trial = min(hosts.views.values(), key=lambda view: view.node).directory
        reason = await why_unavailable(spec.file_system, trial, spec.size_mib)
        if reason is not None:
            raise EnvironmentFailure(f"making {spec.file_system} disks: {reason}")
        layer_refusal = await _try_layer(trial) if spec.layered else "the nodes' disks were made without a layer"
        disks = cls(hosts, spec, reformat, random.Random(f"disks {seed}"), layer_refusal)
        async with AsyncExitStack() as stack:
            for node, view in list(hosts.views.items()):
                kind = (spec.file_system, spec.size_mib, layer_refusal is None)
                disks._disks[node] = await NodeDisk.make(view.directory, *kind, seed=f"disk {seed} {node}")
                stack.push_async_callback(disks._disks[node].end)
                if layer_refusal is None:
                    hosts.set_mirror(node, view.directory / BACKING_FOLDER)
            yield disks

    @property
    def faulty(self) -> tuple[int, ...]:
        """The nodes whose disks currently have a fault."""
        return tuple(sorted(self._faulty))

    def unavailable(self, fault: str) -> str | None:
        """Why these disks do not support a fault; None if they do. Raises BadInput for an unknown fault."""
        if fault not in (*AT_REST, *LIVE):
            raise BadInput(f"disk fault {fault!r}: expected one of {', '.join((*AT_REST, *LIVE))}")
        kind = self._spec.file_system
        if fault in LAYERED:
            return self._layer_refusal
        if fault == "fill_disk" and kind == "directory":
            return (
                "the nodes share the controller's disk; each node needs a file system of its own (tmpfs, ext4 or xfs)"
            )
        if fault == "lose_unsynced" and kind not in LOOPED:
            return f"{kind} keeps unsynced data; use ext4 or xfs on loop devices, as root"
        return None

    async def inject(self, node: int, fault: str, details: Mapping[str, Any]) -> dict[str, Any]:
        """Inject a fault into one node's disk; returns what was done, as JSON."""
        reason = self.unavailable(fault)
        if reason is not None:
            raise EnvironmentFailure(f"{fault} on n{node}: {reason}")
        disk = self._disks[node]
        if fault in LIVE:
            self._faulty.add(node)  # before the injection, so that a partial failure is undone as well
        try:
            if fault in DAMAGES:
                return await asyncio.to_thread(DAMAGES[fault], disk.volume.path, details, self._random_source)
            if fault in FAULT_MODES:
                await disk.set_fault_mode(FAULT_MODES[fault](details))
                return dict(details)
            if fault == "fill_disk":
                free_bytes = details.get("free_bytes", 0)
                return {"free_bytes": free_bytes, "filled_bytes": await asyncio.to_thread(disk.fill, free_bytes)}
            return await self._lose(node, fault, details, disk)
        except OSError as error:
            raise EnvironmentFailure(f"{fault} on n{node}: {error.filename or ''} {error.strerror}") from error

    async def _lose(self, node: int, fault: str, details: Mapping[str, Any], disk: NodeDisk) -> dict[str, Any]:
        """Lose all data or all unsynced data; the node first writes two files that prove the loss."""
        left = await run_probe(self._hosts, node, disk.path, do="leave", synced=SYNCED, unsynced=UNSYNCED)
        if left is None:
            raise PeerFailure(f"{fault} on n{node}: its disk hangs")
        if fault == "lose_unsynced":
            await disk.lose_unsynced()
            return {}
        done = await asyncio.to_thread(file_damage.wipe, disk.volume.path)
        await self._reformat(node, details.get("newcomer", False))
        return done

    async def heal(self, node: int) -> None:
        """Heal the disk. Lost data stays lost. Does nothing if the disk has no fault."""
        disk = self._disks[node]
        disk.free()
        if disk.layer is not None:
            await disk.set_fault_mode(FaultMode())
        self._faulty.discard(node)

    async def probe(self, node: int, fault: str, done: Mapping[str, Any]) -> str | None:
        """Test the disk: None if a process on the node sees the fault, else what it sees."""
        mismatch = await disk_checks.DISK_CHECKS[fault](self._probe_of(node), done)
        if fault == "lose_unsynced":
            (self._disks[node].volume.path / SYNCED).unlink(missing_ok=True)
        return mismatch

    async def problem(self, node: int) -> str | None:
        """Write, sync, read and remove a file as a process on the node: None if it works at normal speed."""
        return await disk_checks.healthy(self._probe_of(node))

    def _probe_of(self, node: int) -> disk_checks.DiskProbe:
        on_disk, off_disk_path = self._disks[node].path, self._hosts.views[node].directory

        async def probe(off_disk: bool = False, **request: Any) -> Any:
            return await run_probe(self._hosts, node, off_disk_path if off_disk else on_disk, **request)

        return probe


async def _try_layer(directory: Path) -> str | None:
    """Mount a layer and unmount it: None if that works, else the reason with a remedy."""
    backing, mount_point = directory / "layer-trial" / "backing", directory / "layer-trial" / "mounted"
    backing.mkdir(parents=True, exist_ok=True)
    try:
        layer = await LayerProcess.start(backing, mount_point, "trial")
    except EnvironmentFailure as error:
        return f"{error}; the layer needs FUSE: as root, modprobe fuse and chmod 0666 /dev/fuse"
    await layer.end()
    for path in (mount_point, backing, backing.parent):
        path.rmdir()
    return None
