"""What a replica needs of its log, as a capability: the shell's is on a disk, memory_log's in memory.

Contains the protocol and pure functions over batches. Does not contain files, roles or high watermarks.

A log is a sequence of batches whose offsets increase; there may be gaps, as compaction leaves them. A batch is
appended, truncated and read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from nodes.reference.core.partitions.epochs import EpochSequence
from nodes.wire.batches import BatchHead, heads, stamped


class ReplicaLog(Protocol):
    """One replica's log. Offsets are those of records; an end is exclusive."""

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def epochs(self) -> EpochSequence:
        """The leader epochs; kept across restarts, and learned from the batches where the file was lost."""

    def begin_epoch(self, epoch: int) -> None:
        """A leader's epoch begins at the end of the log, before it has a record."""

    def append_as_leader(self, data: bytes, epoch: int) -> int:
        """Append intact batches with the next offsets and this epoch; returns the offset of the first record."""

    def append_as_follower(self, data: bytes) -> None:
        """Append a leader's intact batches as they are; none begins before the end of the log."""

    def truncate(self, offset: int) -> None:
        """Keep the batches that end at or before offset, which is not before the start of the log.

        Epochs that then begin at or after the end go too, even if no batch does: a leader that appended nothing has
        such an epoch, and it must not be answered or asked about.
        """

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the log is empty at this offset."""

    def advance_start(self, offset: int) -> None:
        """Records before this offset, which is in the log or its end, can no longer be read."""

    def read(self, offset: int, max_bytes: int, end: int) -> bytes:
        """The batches from that which contains offset on, all of them before end.

        Up to max_bytes, but at least one batch if there is one (KIP-74).
        """

    def batches(self, offset: int) -> Iterator[tuple[bytes, BatchHead]]:
        """The batches from that which contains offset on; each head's positions are those in its bytes."""


def stamped_all(data: bytes, first_offset: int, epoch: int) -> bytes:
    """The batches of data with consecutive offsets from first_offset on and this leader epoch."""
    parts, offset = [], first_offset
    for head in heads(data):
        parts.append(stamped(data, head, offset, epoch))
        offset += head.last_offset - head.base_offset + 1
    return b"".join(parts)
