"""A node's file system: created, mounted where the node keeps its logs, shut down and remounted.

Contains creation and mounting. Does not damage the files on it.

A loop device is bound to an image file that is removed immediately. The kernel frees the device when its last user
closes it (LO_FLAGS_AUTOCLEAR, which `mount -o loop` sets), so nothing outlives the controller. The controller keeps the
device open so that it survives an unmount.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from harness.model import EnvironmentFailure
from harness.model.faults.disks import FileSystem
from nodes.hosts.commands import run

LOOPED: tuple[FileSystem, ...] = ("ext4", "xfs")
XFS_MIB_MIN = 300
"""The smallest size that mkfs.xfs accepts."""
BUSY_SECONDS = 5.0

# Journals are committed on sync and otherwise only every 300 s, so unsynced data is not on the device yet. No blocks
# are reserved for root, because the node is root in the sandbox and must see a full disk as full.
_MAKE = {"ext4": ("-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0"), "xfs": ("-q", "-f", "-K")}
_OPTIONS = {"ext4": "loop,commit=300", "xfs": "loop"}
_REMOUNT_OPTIONS = {"ext4": "commit=300", "xfs": "defaults"}
# linux/fs.h, FS_IOC_SHUTDOWN and its flag not to write the journal first: the state after a power failure.
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2


@dataclass(slots=True)
class Volume:
    """One node's file system, mounted at path. device is the descriptor of its loop device, if it has one."""

    kind: FileSystem
    path: Path
    device: int | None = None

    async def lose_unsynced(self) -> None:
        """Shut the file system down without a flush, then mount the device again."""
        assert self.device is not None, f"{self.kind} has no device and cannot lose unsynced data"
        mounted = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(mounted, _SHUTDOWN, struct.pack("=I", _NO_LOG_FLUSH))
        except OSError as error:
            raise EnvironmentFailure(f"shutting down {self.path}: {error.strerror}") from error
        finally:
            os.close(mounted)
        name = await self._device_name()
        await self.unmount()
        await run(["mount", "-t", self.kind, "-o", _REMOUNT_OPTIONS[self.kind], name, str(self.path)])

    async def unmount(self) -> None:
        """Unmount it here and on the nodes; waits up to BUSY_SECONDS for open files to be closed."""
        deadline = asyncio.get_running_loop().time() + BUSY_SECONDS
        while True:
            try:
                await run(["umount", str(self.path)])
                return
            except EnvironmentFailure as error:
                if "busy" not in str(error) or asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.01)

    def close(self) -> None:
        """Close the loop device."""
        if self.device is not None:
            os.close(self.device)
            self.device = None

    async def _device_name(self) -> str:
        return (await run(["findmnt", "-no", "SOURCE", str(self.path)])).split()[0]


async def mount(kind: FileSystem, path: Path, size_mib: int) -> Volume:
    """Create a file system of this size and mount it. Raises EnvironmentFailure with the tool's message."""
    path.mkdir(parents=True, exist_ok=True)
    if kind == "directory":
        return Volume(kind, path)
    if kind == "tmpfs":
        await run(["mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=755", "disk", str(path)])
        return Volume(kind, path)
    image = path.with_name("disk.img")
    try:
        with image.open("wb") as file:
            file.truncate(size_mib << 20)
        await run([f"mkfs.{kind}", *_MAKE[kind], str(image)])
        await run(["mount", "-t", kind, "-o", _OPTIONS[kind], str(image), str(path)])
    finally:
        image.unlink(missing_ok=True)
    volume = Volume(kind, path)
    volume.device = os.open(await volume._device_name(), os.O_RDONLY | os.O_CLOEXEC)
    # Kafka treats every folder in its log directory as a partition and refuses to start because of lost+found.
    shutil.rmtree(path / "lost+found", ignore_errors=True)
    return volume


async def why_unavailable(kind: FileSystem, directory: Path, size_mib: int) -> str | None:
    """Why this kind of file system is not available here, with a remedy; None if it is available."""
    if kind == "xfs" and size_mib < XFS_MIB_MIN:
        return f"xfs needs at least {XFS_MIB_MIN} MiB, got {size_mib}"
    if kind in LOOPED and not shutil.which(f"mkfs.{kind}"):
        package = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}[kind]
        return f"mkfs.{kind} is not on the path; as root: apt-get install -y {package}"
    trial = directory / "disk-trial"
    try:
        volume = await mount(kind, trial / "data", size_mib)
        if kind != "directory":
            await volume.unmount()
        volume.close()
    except EnvironmentFailure as error:
        hint = "; loop devices need root, tmpfs does not" if kind in LOOPED and not _is_initial_root() else ""
        return f"{error}{hint}"
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    return None


def _is_initial_root() -> bool:
    """Whether this process is in the initial user namespace, where every user id maps to itself."""
    return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
