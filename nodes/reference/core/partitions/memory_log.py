"""A replica's log in memory, for tests and simulations.

    log = MemoryLog()
    log.append_as_leader(encode_batch([Record(None, b"v")], 0, -1, timestamp_ms=0), epoch=3)
    log.flush()
    log.crash()        # what was not flushed is gone

Contains bytes and offsets. Epochs are written at once, as Kafka writes leader-epoch-checkpoint, and trimmed to the log
after a crash; `lose_epochs` reads them from the batches, as Kafka does where the file is missing.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass

from nodes.reference.core.partitions.epochs import EpochSequence
from nodes.reference.core.partitions.log import stamped_all
from nodes.wire.batches import BatchHead, heads, intact_length


@dataclass(frozen=True, slots=True)
class _Batch:
    """One batch; the positions of its head are those in data."""

    data: bytes
    head: BatchHead


class MemoryLog:
    """A ReplicaLog. Appending and truncating take effect at once; `flush` makes what was appended survive a crash."""

    def __init__(self, start_offset: int = 0) -> None:
        self._batches: list[_Batch] = []  # their offsets increase
        self._start = self._end = self._flushed_end = start_offset
        self._epochs = EpochSequence()

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self._start

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._end

    @property
    def flushed_end(self) -> int:
        """Where the log ends after a crash."""
        return min(self._flushed_end, self._end)

    @property
    def epochs(self) -> EpochSequence:
        """The leader epochs."""
        return self._epochs

    def begin_epoch(self, epoch: int) -> None:
        """A leader's epoch begins at the end of the log."""
        self._epochs = self._epochs.assigned(epoch, self._end)

    def append_as_leader(self, data: bytes, epoch: int) -> int:
        """Append batches with the next offsets and this epoch; returns the offset of the first record."""
        first = self._end
        self.append_as_follower(stamped_all(data, first, epoch))
        return first

    def append_as_follower(self, data: bytes) -> None:
        """Append batches as they are."""
        assert intact_length(data) == len(data), "only intact batches are appended"
        for head in heads(data):
            assert head.base_offset >= self._end, f"a batch at {head.base_offset} after {self._end}"
            self._epochs = self._epochs.assigned(head.leader_epoch, head.base_offset)
            batch = data[head.start : head.end]
            self._batches += [_Batch(batch, own) for own in heads(batch)]
            self._end = head.last_offset + 1

    def truncate(self, offset: int) -> None:
        """Keep the batches that end at or before offset."""
        assert offset >= self._start, f"truncating to {offset}, before the start of the log at {self._start}"
        if offset < self._end:
            self._batches = [each for each in self._batches if each.head.last_offset < offset]
            self._end = self._batches[-1].head.last_offset + 1 if self._batches else self._start
            self._flushed_end = min(self._flushed_end, self._end)
        self._epochs = self._epochs.truncated_from_end(self._end)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the log is empty at this offset."""
        self._batches, self._epochs = [], EpochSequence()
        self._start = self._end = self._flushed_end = offset

    def advance_start(self, offset: int) -> None:
        """Remove the batches that end at or before offset; no earlier record can be read."""
        assert offset <= self._end, f"the log ends at {self._end}, before {offset}"
        if offset > self._start:
            self._start = offset
            self._batches = [each for each in self._batches if each.head.last_offset >= offset]
            self._epochs = self._epochs.truncated_from_start(offset)

    def read(self, offset: int, max_bytes: int, end: int) -> bytes:
        """The batches from that which contains offset on, all of them before end."""
        chosen: list[bytes] = []
        size = 0
        for data, head in self.batches(offset):
            if head.last_offset >= end or (chosen and size + len(data) > max_bytes):
                break
            chosen.append(data)
            size += len(data)
        return b"".join(chosen)

    def batches(self, offset: int) -> Iterator[tuple[bytes, BatchHead]]:
        """The batches from that which contains offset on."""
        first = bisect.bisect_left(self._batches, offset, key=lambda each: each.head.last_offset)
        return ((each.data, each.head) for each in self._batches[first:])

    def flush(self) -> None:
        """What is in the log now survives a crash."""
        self._flushed_end = self._end

    def crash(self) -> None:
        """Lose what was not flushed."""
        if self.flushed_end < self._end:
            self.truncate(max(self.flushed_end, self._start))

    def remove_batches_of(self, epoch: int) -> None:
        """Remove all records of an epoch, as compaction may where later records have their keys."""
        self._batches = [each for each in self._batches if each.head.leader_epoch != epoch]

    def lose_epochs(self) -> None:
        """The file of epochs is lost; they are read from the batches that are left."""
        self._epochs = EpochSequence()
        for each in self._batches:
            self._epochs = self._epochs.assigned(each.head.leader_epoch, each.head.base_offset)
