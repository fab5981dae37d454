"""One node's disk as it is built: a file system, and where asked for a layer between it and the node.

What may live here: putting these together and taking them apart. What may not: what befalls the files.
"""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from harness.model import EnvironmentFailure
from harness.model.faults.disks import FileSystem
from nodes.hosts.commands import run
from nodes.hosts.disks.layer import FaultMode
from nodes.hosts.disks.layer_process import LayerProcess
from nodes.hosts.disks.volume import Volume, mount

BALLOON = ".splitbrain-balloon"
BALLOON_STEP_BYTES = 64 << 10
LOGS = "data"
"""Where in its directory a node keeps its logs."""
BENEATH = "beneath"
"""The folder in a node's directory where its files are, by the same names, without the layer."""
SERVER_LOG = "server.log"


@dataclass(slots=True)
class Store:
    """A node's disk. Its files are at `path` for the node, at volume.path, beneath any layer, for the controller."""

    path: Path
    volume: Volume
    seed: str
    layer: LayerProcess | None = None

    @classmethod
    async def make(cls, directory: Path, kind: FileSystem, size_mib: int, layered: bool, seed: str) -> Store:
        """Make a disk in a node's directory."""
        path = directory / LOGS
        volume = await mount(kind, directory / BENEATH / LOGS if layered else path, size_mib)
        store = cls(path, volume, seed)
        if layered:
            (directory / BENEATH / SERVER_LOG).symlink_to(Path("..") / SERVER_LOG)
            store.layer = await LayerProcess.start(volume.path, path, seed)
        return store

    async def end(self) -> None:
        """Unmount what was mounted, and leave what was on the disk where the node had it: it is evidence."""
        self.deflate()
        if self.layer is not None:
            await self.layer.end()
        if self.volume.kind != "directory":
            await self._move_off()
        self.volume.close()
        if self.volume.path != self.path:
            self.volume.path.replace(self.path)
            shutil.rmtree(self.volume.path.parent)

    async def _move_off(self) -> None:
        """Copy the files off their file system and unmount it."""
        kept = self.volume.path.with_name("kept")
        await run(["cp", "-a", "--sparse=always", str(self.volume.path), str(kept)])
        await self.volume.unmount()
        kept.replace(self.volume.path)

    async def lose_unsynced(self) -> None:
        """Lose what was not synced; a layer, which holds files open, is started anew."""
        if self.layer is not None:
            await self.layer.end()
        await self.volume.lose_unsynced()
        if self.layer is not None:
            self.layer = await LayerProcess.start(self.volume.path, self.path, self.seed)

    async def set_fault_mode(self, how: FaultMode) -> None:
        """Tell the layer; one that has ended is started anew."""
        assert self.layer is not None, "a deed that is missing is not done"
        if self.layer.process.returncode is not None:
            await self.layer.end()
            self.layer = await LayerProcess.start(self.volume.path, self.path, self.seed)
        await self.layer.set_fault_mode(how)

    def inflate(self, free_bytes: int) -> int:
        """Fill the file system but for so many bytes with one file, whose size is returned."""
        status = os.statvfs(self.volume.path)
        size = max(0, status.f_bavail * status.f_frsize - free_bytes)
        descriptor = os.open(self.volume.path / BALLOON, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while size and not _reserved(descriptor, size):
                size = max(0, size - BALLOON_STEP_BYTES)  # the file system's own records of the file take room too
        finally:
            os.close(descriptor)
        return size

    def deflate(self) -> None:
        """Remove that file."""
        (self.volume.path / BALLOON).unlink(missing_ok=True)


def _reserved(descriptor: int, size: int) -> bool:
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise EnvironmentFailure(f"filling a disk: {error.strerror}") from error
        return False
    return True
