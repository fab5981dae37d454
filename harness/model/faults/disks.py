"""Disk faults: the capability of hosts to inject them, and the steps that request them.

A node's disk is the file system of its log directory, if the node has one of its own; otherwise it is that directory
alone, and other files of the shared file system are never touched.

AT_REST faults damage the disk of a node that is down: the node is killed first, and healing or a step starts it again.
LIVE faults affect a running node. LAYERED faults need a file system layer between the node and its files, which slows
every access slightly; a run has it only if its story contains such a fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from harness.model.story import Step, Who

FileSystem = Literal["directory", "tmpfs", "ext4", "xfs"]
"""A node's disk: a directory on the controller's disk, a memory file system, or a loop device with ext4 or xfs."""

AT_REST: Final = ("lose_disk", "lose_unsynced", "flip_bits", "truncate_log", "corrupt_checkpoint")
LAYERED: Final = ("read_only_disk", "slow_disk", "hang_disk", "disk_errors")
LIVE: Final = ("fill_disk", *LAYERED)

Checkpoint = Literal["quorum-state", "leader-epoch-checkpoint", "meta.properties"]
Damage = Literal["garbage", "zeros", "empty", "missing"]
DiskError = Literal["EIO", "ENOSPC"]


class Disks(Protocol):
    """The nodes' disks. Faults raise EnvironmentFailure if the machine refuses, PeerFailure if a node does."""

    @property
    def faulty(self) -> Sequence[int]:
        """The nodes whose disks currently have a fault."""

    def unavailable(self, fault: str) -> str | None:
        """Why these disks do not support a fault; None if they do."""

    async def inject(self, node: int, fault: str, details: Mapping[str, Any]) -> dict[str, Any]:
        """Inject a fault into one node's disk; returns what was done, as JSON. For AT_REST faults the node is down."""

    async def heal(self, node: int) -> None:
        """Heal the disk. Lost data stays lost. Does nothing if the disk has no fault."""

    async def probe(self, node: int, fault: str, done: Mapping[str, Any]) -> str | None:
        """Test the disk: None if a process on the node sees the fault, else what it sees."""

    async def problem(self, node: int) -> str | None:
        """Write, sync, read and remove a file as a process on the node: None if it works at normal speed."""


def lose_disk(who: Who, newcomer: bool = False) -> Step:
    """Kill the node, wipe its disk and format it with the same node id: a replaced disk.

    With dynamic voters, a newcomer's disk gets a new directory id (KIP-853): the node becomes a voter when it is added,
    and the voter with the old directory id remains one until it is removed.
    """
    return Step("lose_disk", {"who": who, **({"newcomer": True} if newcomer else {})})


def lose_unsynced(who: Who) -> Step:
    """Kill the node and discard what it had not synced: a power failure. Needs ext4 or xfs."""
    return Step("lose_unsynced", {"who": who})


def flip_bits(who: Who, bits: int = 1, files: str | None = None) -> Step:
    """Kill the node and flip bits in files that match a pattern below its log directory.

    Without a pattern, the files are the segments of the system's metadata log.
    """
    return Step("flip_bits", {"who": who, "bits": bits, **({"files": files} if files else {})})


def truncate_log(who: Who, last_bytes: int = 0, last_batches: int = 0, log: str | None = None) -> Step:
    """Kill the node and remove the last bytes, or the last whole batches, of the newest segment of a log.

    log is the log's folder below the node's log directory; without one, it is the system's metadata log.
    """
    last = {"last_bytes": last_bytes, "last_batches": last_batches}
    return Step("truncate_log", {"who": who, **last, **({"log": log} if log else {})})


def corrupt_checkpoint(
    who: Who, checkpoint: Checkpoint = "quorum-state", damage: Damage = "garbage", log: str | None = None
) -> Step:
    """Kill the node and fill one of its small files with garbage or zeros, empty it, or delete it (missing).

    log is the folder of the log whose checkpoint it is, e.g. t-0; without one, it is the system's metadata log.
    """
    value = {"who": who, "checkpoint": checkpoint, "damage": damage}
    return Step("corrupt_checkpoint", {**value, **({"log": log} if log else {})})


def fill_disk(who: Who, free_bytes: int = 0) -> Step:
    """Fill the disk up to this many free bytes while the node runs."""
    return Step("fill_disk", {"who": who, "free_bytes": free_bytes})


def read_only_disk(who: Who) -> Step:
    """Writes fail with EROFS, as after the kernel has remounted a damaged file system read-only."""
    return Step("read_only_disk", {"who": who})


def slow_disk(who: Who, delay_ms: float) -> Step:
    """Delay each read, write and sync."""
    return Step("slow_disk", {"who": who, "delay_ms": delay_ms})


def hang_disk(who: Who) -> Step:
    """Block reads, writes and syncs until the disk is healed. A blocked process can still be killed."""
    return Step("hang_disk", {"who": who})


def disk_errors(who: Who, rate: float, error: DiskError = "EIO") -> Step:
    """Fail this share of reads, writes and syncs; with ENOSPC only writes and syncs."""
    return Step("disk_errors", {"who": who, "rate": rate, "error": error})
