"""A log on disk: segments of batches, and the file with its leader epochs.

    log = DiskLog(directory)                      # nodes.reference.core.partitions.log.ReplicaLog
    log.append_as_leader(data, epoch=3)

The file leader-epoch-checkpoint is replaced at once when an epoch begins, and is made durable when the log is truncated
or flushed. So a failure of the power may lose its last entries: when a log is opened, the batches from its recovery
point on say which they were, as in Kafka. What it says of records that a crash has removed is left out, and where it is
missing or damaged the epochs are read from all batches.

Contains the way from the core's capability to files. Raises OSError.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.durable_files import replace_file
from nodes.reference.core.partitions.epochs import EpochSequence
from nodes.reference.core.partitions.log import stamped_all
from nodes.reference.core.partitions.retention import Extent
from nodes.reference.logs.compacted_segment import CompactedSegment, Source
from nodes.reference.logs.segments import OF_LAST_SEGMENT, SEGMENT_BYTES, Recovery, SegmentedLog, at_start
from nodes.wire.batches import BatchHead, heads

EPOCHS = "leader-epoch-checkpoint"


class DiskLog:
    """A log, in its directory. truncations counts how often records were removed from its end."""

    def __init__(
        self,
        directory: Path,
        segment_bytes: int = SEGMENT_BYTES,
        recovery: Recovery = OF_LAST_SEGMENT,
        start_offset: int = 0,
        flushes_full_segments: bool = False,
    ) -> None:
        """start_offset: no earlier record can be read, whatever the files have."""
        self.directory, self._path = directory, directory / EPOCHS
        self._segments = SegmentedLog(directory, segment_bytes, recovery)
        self._segments.flushes_full_segments = flushes_full_segments
        self._are_epochs_durable = False
        self._segments.delete_before(start_offset)
        self.truncations, self.is_closed = 0, False
        self._epochs = self._stored_epochs()
        self._set_epochs(self._recovered_epochs(), durably=True)

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self._segments.start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._segments.end_offset

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return sum(segment.size for segment in self._segments.segments)

    @property
    def stored_from(self) -> int:
        """The first offset in the files, which may be before the start of the log."""
        return self._segments.segments[0].base_offset

    @property
    def segment_bytes(self) -> int:
        """The largest size of a segment."""
        return self._segments.segment_bytes

    def configure(self, segment_bytes: int, segment_ms: int) -> None:
        """When segments end, from the next append on."""
        self._segments.segment_bytes, self._segments.segment_ms = segment_bytes, segment_ms

    def extents(self) -> Sequence[Extent]:
        """The segments, the oldest first."""
        return self._segments.extents()

    def roll(self) -> None:
        """Begin a new segment, unless the last one is empty."""
        self._segments.roll()

    def sources(self, end: int) -> Sequence[Source]:
        """The segments up to this offset, at which one ends, as a compaction reads them."""
        chosen = [each for each in self._segments.extents() if each.end_offset <= end]
        paths = (each.path for each in self._segments.segments)
        return [
            Source(path, each.base_offset, each.end_offset, each.size_bytes)
            for path, each in zip(paths, chosen, strict=False)
        ]

    def replace(self, compacted: CompactedSegment) -> bool:
        """Let a compacted segment replace those that it was written from; False if the log has others by now."""
        return self._segments.replace(compacted)

    @property
    def torn_bytes(self) -> int:
        """How much was removed when the log was opened."""
        return self._segments.torn_bytes

    @property
    def epochs(self) -> EpochSequence:
        """The leader epochs."""
        return self._epochs

    def begin_epoch(self, epoch: int) -> None:
        """A leader's epoch begins at the end of the log."""
        self._set_epochs(self._epochs.assigned(epoch, self.end_offset))

    def append_as_leader(self, data: bytes, epoch: int) -> int:
        """Append batches with the next offsets and this epoch; returns the offset of the first record."""
        first = self.end_offset
        self.append_as_follower(stamped_all(data, first, epoch))
        return first

    def append_as_follower(self, data: bytes) -> None:
        """Append batches as they are."""
        epochs = self._epochs
        for head in heads(data):
            epochs = epochs.assigned(head.leader_epoch, head.base_offset)
        self._set_epochs(epochs)
        self._segments.append(data)

    def truncate(self, offset: int) -> None:
        """Keep the batches that end at or before offset."""
        self.truncations += 1
        self._segments.truncate(offset)
        self._set_epochs(self._epochs.truncated_from_end(self.end_offset), durably=True)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the log is empty at this offset."""
        self.truncations += 1
        self._segments.truncate_fully(offset)
        self._set_epochs(EpochSequence(), durably=True)

    def advance_start(self, offset: int) -> None:
        """Records before this offset can no longer be read; segments that end before it are removed."""
        if offset >= self.start_offset:  # a segment before it may still be there, if it was the last one until now
            self._segments.delete_before(offset)
            self._set_epochs(self._epochs.truncated_from_start(self.start_offset))

    def read(self, offset: int, max_bytes: int, end: int) -> bytes:
        """The batches from that which contains offset on, all of them before end."""
        return self._segments.read(offset, max_bytes, end)

    def batches(self, offset: int) -> Iterator[tuple[bytes, BatchHead]]:
        """The batches from that which contains offset on; each head's positions are those in its bytes."""
        for head, data in self._segments.batches(offset):
            yield data, at_start(head)

    def flush(self) -> None:
        """What is in the log now survives a failure of the power."""
        if not self._are_epochs_durable and self._path.exists():
            replace_file(self._path, self._epochs.text().encode())
        self._are_epochs_durable = True
        self._segments.flush()

    def close(self) -> None:
        """Close all files."""
        self.is_closed = True
        self._segments.close()

    def _stored_epochs(self) -> EpochSequence:
        """What the file says; nothing if it is missing or damaged."""
        try:
            return EpochSequence.parsed(self._path.read_text())
        except (FileNotFoundError, ValueError):
            return EpochSequence()

    def _recovered_epochs(self) -> EpochSequence:
        """What the file and the batches say."""
        epochs, found = self._epochs, self._segments.verified_epochs
        if not epochs.starts:
            found = [(head.leader_epoch, head.base_offset) for _, head in self.batches(self.start_offset)]
        for epoch, offset in found:
            if epoch > epochs.latest:
                epochs = epochs.assigned(epoch, offset)
        return epochs.truncated_from_end(self.end_offset)

    def _set_epochs(self, epochs: EpochSequence, *, durably: bool = False) -> None:
        """Replace the file by a rename, if they have changed."""
        if epochs == self._epochs:
            return
        self._epochs, self._are_epochs_durable = epochs, durably
        replace_file(self._path, epochs.text().encode(), durably)
