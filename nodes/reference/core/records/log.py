"""The core's copy of the log in memory, with the start offset of each epoch.

Contains offsets, epochs and bytes. Does not contain files (the shell carries out AppendLog and TruncateLog), roles, or
the meaning of records.

The log of a metadata quorum is small, so all batches are kept in memory. Truncation follows KIP-279 as KIP-595 uses it:
the offset comes from the epochs, not from the high watermark, and no more is truncated than the divergence requires.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from nodes.reference.core.messages import EpochEnd
from nodes.wire.batches import BatchHead, Record, heads, records


class Log:
    """Contiguous batches from offset 0 on; offsets have no gaps and epochs never decrease."""

    def __init__(self, data: bytes = b"") -> None:
        self._bases: list[int] = []  # the base offset of each batch, increasing
        self._batches: list[bytes] = []  # the batches, parallel to _bases
        self._sizes_before: list[int] = []  # bytes on disk before each batch, parallel to _bases
        self._epochs: list[tuple[int, int]] = []  # (epoch, first offset), both increasing
        self.end_offset = 0
        self.high_watermark = -1  # the highest known; all records below it are committed. -1: not known yet
        self._bytes = 0
        self.append(data)

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

    def truncate(self, offset: int) -> int:
        """Keep the batches that end at or before offset; returns the remaining size in bytes."""
        keep = bisect.bisect_left(self._bases, offset)
        if keep and self._end_of(keep - 1) > offset:
            keep -= 1
        self._bytes = self._sizes_before[keep] if keep < len(self._bases) else self._bytes
        self.end_offset = self._end_of(keep - 1) if keep else 0
        del self._bases[keep:], self._batches[keep:], self._sizes_before[keep:]
        self._epochs = [entry for entry in self._epochs if entry[1] < self.end_offset]
        return self._bytes

    def _end_of(self, index: int) -> int:
        return self._bases[index + 1] if index + 1 < len(self._bases) else self.end_offset
