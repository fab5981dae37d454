"""One node's disk: a file system and, if requested, a fault layer between it and the node.

Contains assembly and removal of the two. Does not damage files.
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
from nodes.hosts.processes import LOG_NAME

BALLOON = ".splitbrain-balloon"
BALLOON_STEP_BYTES = 64 << 10
DATA_FOLDER = "data"
"""The folder in a node's directory that holds its logs."""
BACKING_FOLDER = "beneath"
"""The folder in a node's directory that exposes its files, under the same names, without the layer."""


@dataclass(slots=True)
class NodeDisk:
    """A node's disk. The node sees its files at `path`; the controller sees them at volume.path, below any layer."""

    path: Path
    volume: Volume
    seed: str
    layer: LayerProcess | None = None

    @classmethod
    async def make(cls, directory: Path, kind: FileSystem, size_mib: int, layered: bool, seed: str) -> NodeDisk:
        """Create a disk in a node's directory."""
        path = directory / DATA_FOLDER
        volume = await mount(kind, directory / BACKING_FOLDER / DATA_FOLDER if layered else path, size_mib)
        disk = cls(path, volume, seed)
        if layered:
            (directory / BACKING_FOLDER / LOG_NAME).symlink_to(Path("..") / LOG_NAME)
            disk.layer = await LayerProcess.start(volume.path, path, seed)
        return disk

    async def end(self) -> None:
        """Unmount everything and leave the disk's files at the node's path as evidence."""
        self.free()
        if self.layer is not None:
            await self.layer.end()
        if self.volume.kind != "directory":
            await self._copy_and_unmount()
        self.volume.close()
        if self.volume.path != self.path:
            self.volume.path.replace(self.path)
            shutil.rmtree(self.volume.path.parent)

    async def _copy_and_unmount(self) -> None:
        """Copy the files to the controller's file system and unmount theirs."""
        kept = self.volume.path.with_name("kept")
        await run(["cp", "-a", "--sparse=always", str(self.volume.path), str(kept)])
        await self.volume.unmount()
        kept.replace(self.volume.path)

    async def lose_unsynced(self) -> None:
        """Lose unsynced data; the layer keeps files open, so it is restarted."""
        if self.layer is not None:
            await self.layer.end()
        await self.volume.lose_unsynced()
        if self.layer is not None:
            self.layer = await LayerProcess.start(self.volume.path, self.path, self.seed)

    async def set_fault_mode(self, mode: FaultMode) -> None:
        """Set the layer's fault mode; a layer whose process has ended is restarted first."""
        assert self.layer is not None, "this disk has no layer"
        if self.layer.process.returncode is not None:
            await self.layer.end()
            self.layer = await LayerProcess.start(self.volume.path, self.path, self.seed)
        await self.layer.set_fault_mode(mode)

    def fill(self, free_bytes: int) -> int:
        """Fill the file system except for free_bytes with one file; returns the file's size."""
        status = os.statvfs(self.volume.path)
        size = max(0, status.f_bavail * status.f_frsize - free_bytes)
        descriptor = os.open(self.volume.path / BALLOON, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while size and not _reserved(descriptor, size):
                size = max(0, size - BALLOON_STEP_BYTES)  # the file's own metadata takes space too
        finally:
            os.close(descriptor)
        return size

    def free(self) -> None:
        """Remove the file that fill() created."""
        (self.volume.path / BALLOON).unlink(missing_ok=True)


def _reserved(descriptor: int, size: int) -> bool:
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise EnvironmentFailure(f"filling a disk: {error.strerror}") from error
        return False
    return True
