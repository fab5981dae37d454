"""What may befall the disks of nodes, the capability of hosts to make it so, and the steps of a story that ask it.

A node's disk is what its log directory is on: a file system of its own, or where it shares one with others, that
directory alone. What lives on a disk that shares is never touched beside it.

Some deeds are done to a disk at rest: the node is killed first, and started again by healing or by a step. The others
befall a node that runs. Those in LAYERED need a layer between the node and its files, which costs each access a little,
so that a run has it only where its story asks for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from harness.model.story import Step, Who

FileSystem = Literal["directory", "tmpfs", "ext4", "xfs"]
"""What a node's disk is: a directory on the controller's disk, a memory file system, or a loop device with one."""

AT_REST: Final = ("lose_disk", "lose_unsynced", "flip_bits", "truncate_log", "corrupt_checkpoint")
LAYERED: Final = ("read_only_disk", "slow_disk", "hang_disk", "disk_errors")
LIVE: Final = ("fill_disk", *LAYERED)

METADATA_LOG: Final = "__cluster_metadata-0"
Checkpoint = Literal["quorum-state", "leader-epoch-checkpoint", "meta.properties"]
Damage = Literal["garbage", "zeros", "empty"]
DiskError = Literal["EIO", "ENOSPC"]


class Disks(Protocol):
    """The nodes' disks. Every deed raises EnvironmentFailure where the machine, PeerFailure where a node refuses."""

    @property
    def disturbed(self) -> Sequence[int]:
        """The nodes whose disks do not work as they should just now."""

    def missing(self, deed: str) -> str | None:
        """Why a deed cannot be done on these disks, None where it can."""

    async def do(self, node: int, deed: str, details: Mapping[str, Any]) -> dict[str, Any]:
        """Do it to one node's disk; what was done, as JSON. A deed of AT_REST finds the node down."""

    async def undo(self, node: int) -> None:
        """The disk works as it should again; what was lost stays lost. Harmless where nothing was done."""

    async def probe(self, node: int, deed: str, done: Mapping[str, Any]) -> str | None:
        """Try the disk: None where what was done shows in what a process on the node sees, else what was seen."""

    async def trouble(self, node: int) -> str | None:
        """Write, sync, read and remove as a process on the node would: None where all goes well and fast."""


def lose_disk(who: Who, newcomer: bool = False) -> Step:
    """The node dies, its disk is wiped and made anew with the same node id: a replaced disk.

    In a quorum whose voters change, a newcomer's disk has an id of its own: the node is a voter once it is added as
    one, and who was a voter under its number still is until it is removed (KIP-853).
    """
    return Step("lose_disk", {"who": who, **({"newcomer": True} if newcomer else {})})


def lose_unsynced(who: Who) -> Step:
    """The node dies and what it had not synced is gone: a power failure. On ext4 and xfs alone."""
    return Step("lose_unsynced", {"who": who})


def flip_bits(who: Who, bits: int = 1, files: str = f"{METADATA_LOG}/*.log") -> Step:
    """The node dies and so many bits of files (a pattern below its log directory) are the other way round."""
    return Step("flip_bits", {"who": who, "bits": bits, "files": files})


def truncate_log(who: Who, last_bytes: int = 0, last_batches: int = 0, log: str = METADATA_LOG) -> Step:
    """The node dies and the newest segment of a log has lost its last bytes, or its last whole batches."""
    return Step("truncate_log", {"who": who, "last_bytes": last_bytes, "last_batches": last_batches, "log": log})


def corrupt_checkpoint(who: Who, checkpoint: Checkpoint = "quorum-state", damage: Damage = "garbage") -> Step:
    """The node dies and one of its small files holds garbage, zeros or nothing."""
    return Step("corrupt_checkpoint", {"who": who, "checkpoint": checkpoint, "damage": damage})


def fill_disk(who: Who, free_bytes: int = 0) -> Step:
    """The disk has only so many bytes left, while the node runs."""
    return Step("fill_disk", {"who": who, "free_bytes": free_bytes})


def read_only_disk(who: Who) -> Step:
    """Whatever would change the disk fails with EROFS, as after a kernel has lost its trust in a file system."""
    return Step("read_only_disk", {"who": who})


def slow_disk(who: Who, delay_ms: float) -> Step:
    """Each read, write and sync takes so much longer."""
    return Step("slow_disk", {"who": who, "delay_ms": delay_ms})


def hang_disk(who: Who) -> Step:
    """Whoever reads, writes or syncs waits until the disk is healed; a kill still ends a process that waits."""
    return Step("hang_disk", {"who": who})


def disk_errors(who: Who, rate: float, error: DiskError = "EIO") -> Step:
    """Reads, writes and syncs fail at this rate; ENOSPC only writes and syncs do."""
    return Step("disk_errors", {"who": who, "rate": rate, "error": error})
