"""The core's copy of the log in memory, with the start offset of each epoch.

Contains offsets, epochs and bytes. Does not contain files (the shell carries out AppendLog and TruncateLog), roles, or
the meaning of records.

The log of a metadata quorum is small, so all batches behind the last snapshot are kept in memory. Truncation follows
KIP-279 as KIP-595 uses it: the offset comes from the epochs, not from the high watermark, and no more is truncated than
the divergence requires.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from nodes.reference.core.messages import EpochEnd, SnapshotId
from nodes.wire.batches import BatchHead, Record, heads, records

BEGINNING = SnapshotId(0, 0)
"""What no record precedes."""


class Log:
    """Contiguous batches from start on; offsets have no gaps and epochs never decrease.

    A snapshot covers what is before start.
    """

    def __init__(self, data: bytes = b"", start: SnapshotId = BEGINNING) -> None:
        self._bases: list[int] = []  # the base offset of each batch, increasing
        self._batches: list[bytes] = []  # the batches, parallel to _bases
        self._sizes_before: list[int] = []  # bytes of the log before each batch, parallel to _bases
        self._epochs: list[tuple[int, int]] = []  # (epoch, first offset), both increasing
        self._bytes = self.end_offset = 0
        self.start = BEGINNING
        self.high_watermark = -1  # the highest known; all records below it are committed. -1: not known yet
        if start != BEGINNING:
            self.begin_behind(start)
        self.append(data)

    def begin_behind(self, snapshot: SnapshotId) -> None:
        """Become the empty log behind a snapshot, which is committed."""
        self._bases, self._batches, self._sizes_before, self._bytes = [], [], [], 0
        self._epochs = [(snapshot.epoch, snapshot.end_offset)]
        self.start, self.end_offset = snapshot, snapshot.end_offset
        self.high_watermark = max(self.high_watermark, snapshot.end_offset)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; 0 in an empty log."""
        return self._epochs[-1][0] if self._epochs else 0

    def append(self, data: bytes) -> None:
        """Append complete batches for which `continues` is true."""
        for head in heads(data):
            assert head.base_offset == self.end_offset, f"a batch at {head.base_offset} after {self.end_offset}"
            if head.leader_epoch > self.last_epoch or not self._epochs:
                self._epochs.append((head.leader_epoch, head.base_offset))
            self._bases.append(head.base_offset)
            self._batches.append(data[head.start : head.end])
            self._sizes_before.append(self._bytes)
            self._bytes += head.end - head.start
            self.end_offset = head.last_offset + 1

    def continues(self, batch: BatchHead, end_offset: int) -> bool:
        """Whether a batch may follow a log that ends at end_offset."""
        return batch.base_offset == end_offset and batch.leader_epoch >= self.last_epoch

    def read(self, offset: int, max_bytes: int) -> bytes:
        """The batches from offset (a batch's base) on: up to max_bytes, but at least one batch if there is one."""
        chosen: list[bytes] = []
        size = 0
        for batch in self._batches[bisect.bisect_left(self._bases, offset) :]:
            if chosen and size + len(batch) > max_bytes:
                break
            chosen.append(batch)
            size += len(batch)
        return b"".join(chosen)

    def read_from(self, offset: int) -> bytes:
        """All batches from the one with offset on."""
        return b"".join(self._batches[bisect.bisect_left(self._bases, offset) :])

    def records(self, start: int, end: int) -> Iterator[Record]:
        """The data records with start <= offset < end, without control records. Both offsets are batch boundaries."""
        first, last = bisect.bisect_left(self._bases, start), bisect.bisect_left(self._bases, end)
        for batch in self._batches[first:last]:
            for head in heads(batch):
                if not head.is_control and not head.is_compressed:
                    yield from records(batch, head)

    def size_of(self, start: int, end: int) -> int:
        """The bytes of the batches between two of their boundaries, both in the log."""
        return self._position(end) - self._position(start)

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record before offset, which is above the start."""
        return self._epochs[bisect.bisect_left(self._epochs, offset, key=lambda entry: entry[1]) - 1][0]

    def remove_before(self, snapshot: SnapshotId) -> None:
        """Remove the batches that a snapshot of this log covers."""
        size, removed = self._position(snapshot.end_offset), bisect.bisect_left(self._bases, snapshot.end_offset)
        del self._bases[:removed], self._batches[:removed]
        self._sizes_before = [before - size for before in self._sizes_before[removed:]]
        self._bytes -= size
        later = [entry for entry in self._epochs if entry[0] > snapshot.epoch]
        self.start, self._epochs = snapshot, [(snapshot.epoch, snapshot.end_offset), *later]

    def needs_snapshot(self, offset: int, epoch: int) -> bool:
        """Whether a log that ends at offset with a record of epoch cannot be continued from this log (KIP-630)."""
        start = self.start
        is_other = offset == start.end_offset and epoch != start.epoch
        return start != BEGINNING and (offset < start.end_offset or is_other or epoch < start.epoch)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """The largest epoch that is at most `epoch`, and where it ends in this log (KIP-279)."""
        at = bisect.bisect_right(self._epochs, (epoch, self.end_offset))
        if at == 0:
            return EpochEnd(epoch, self._epochs[0][1] if self._epochs else 0)
        end = self._epochs[at][1] if at < len(self._epochs) else self.end_offset
        return EpochEnd(self._epochs[at - 1][0], end)

    def divergence(self, offset: int, epoch: int) -> EpochEnd | None:
        """None if a log that ends at offset with a record of epoch is a prefix of this log; else where they diverge."""
        if offset == 0:
            return None
        end = self.epoch_end(epoch)
        return None if end.epoch == epoch and offset <= end.end_offset else end

    def truncation_offset(self, diverging: EpochEnd) -> int:
        """Where to truncate this log, given the divergence that the leader reported (KIP-279, KIP-595)."""
        local = self.epoch_end(diverging.epoch)
        return min(local.end_offset, diverging.end_offset) if local.epoch == diverging.epoch else local.end_offset

    def truncate(self, offset: int) -> None:
        """Keep the batches that end at or before offset."""
        keep = bisect.bisect_left(self._bases, offset)
        if keep and self._end_of(keep - 1) > offset:
            keep -= 1
        self._bytes = self._sizes_before[keep] if keep < len(self._bases) else self._bytes
        self.end_offset = self._end_of(keep - 1) if keep else self.start.end_offset
        del self._bases[keep:], self._batches[keep:], self._sizes_before[keep:]
        covered = [] if self.start == BEGINNING else self._epochs[:1]
        self._epochs = covered + [entry for entry in self._epochs[len(covered) :] if entry[1] < self.end_offset]

    def _position(self, offset: int) -> int:
        """Where the batch with this base offset begins; the end of the log if there is none."""
        at = bisect.bisect_left(self._bases, offset)
        return self._sizes_before[at] if at < len(self._bases) else self._bytes

    def _end_of(self, index: int) -> int:
        return self._bases[index + 1] if index + 1 < len(self._bases) else self.end_offset
