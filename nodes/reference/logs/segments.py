"""A log on disk: segments of record batches, each with a sparse index, in Kafka's files.

    log = SegmentedLog(directory, segment_bytes=1 << 30)
    log.append(data)                    # complete batches that continue the log
    log.read(offset, max_bytes, end)    # whole batches from the one that holds offset, below end
    log.truncate(offset)                # whole batches: end_offset is at most offset afterwards

    DIR/00000000000000000000.log        record batches from this base offset on
    DIR/00000000000000000000.index      offset minus base, and position, for a batch every INDEX_INTERVAL bytes

A new segment begins when the last one is full, or, by the times of the records, has become too old. Compaction replaces
segments by one that has fewer batches (compacted_segment.py), so offsets may have gaps.

Opening verifies the batches from the recovery point on, the offset up to which the log was flushed, by default the
first one of the last segment: a crash may have torn what was written later, and everything from the first torn batch on
is removed. What lies before is found by the indexes, so opening takes neither time nor memory for it.

Data is in the page cache when append returns, as in Kafka, and on disk after flush. Raises OSError.

Contains files and offsets. What an epoch is, and where to truncate, is in nodes/reference/core.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.durable_files import sync_directory
from nodes.reference.core.partitions.log_config import NEVER
from nodes.reference.core.partitions.retention import Extent
from nodes.reference.logs.compacted_segment import CompactedSegment, finish_replacements
from nodes.reference.logs.segment import INDEX_INTERVAL, Segment
from nodes.wire.batches import BatchHead, heads, is_intact

SEGMENT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening a log does.

    point: the offset up to which the log was flushed; None: all but the last segment is. The mutants of the disk change
    the rest: checksums are not verified, or torn batches stay in the file, so that nothing behind them can be read.
    """

    point: int | None = None
    verifies_checksums: bool = True
    removes_torn: bool = True


OF_LAST_SEGMENT = Recovery()
"""Verifies the last segment alone."""


class SegmentedLog:
    """A log. start_offset is that of its first record, or of the next if it is empty.

    torn_bytes is how much was removed when the log was opened. verified_epochs are the leader epochs of the batches
    that were verified then, each with the offset of its first one. flushes_full_segments: a segment is durable before
    the next one begins, so that only the last one can be torn.
    """

    def __init__(
        self, directory: Path, segment_bytes: int = SEGMENT_BYTES, recovery: Recovery = OF_LAST_SEGMENT
    ) -> None:
        self._directory, self.segment_bytes, self.segment_ms = directory, segment_bytes, NEVER
        self._recovery, self.flushes_full_segments, self._are_names_durable = recovery, False, False
        directory.mkdir(parents=True, exist_ok=True)
        finish_replacements(directory)
        bases = sorted(int(path.stem) for path in directory.glob("*.log"))
        self._segments = [Segment.open(directory, base) for base in bases or [0]]
        self.start_offset = self.end_offset = self._segments[0].base_offset
        self.verified_epochs: list[tuple[int, int]] = []
        last = self._segments[-1].base_offset
        self._flushed_to = last if recovery.point is None else min(last, recovery.point)
        self.torn_bytes = self._recover(self._flushed_to)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, for reading."""
        return self._segments

    def append(self, data: bytes) -> None:
        """Append complete batches; their offsets rise from end_offset on."""
        for head in heads(data):
            assert head.base_offset >= self.end_offset, f"a batch at {head.base_offset} after {self.end_offset}"
            segment = self._segments[-1]
            if segment.size and self._is_complete(segment, head):
                segment = self._begin_segment(head.base_offset)
            segment.append(memoryview(data)[head.start : head.end], head)
            self.end_offset = head.last_offset + 1

    def _is_complete(self, segment: Segment, head: BatchHead) -> bool:
        """Whether this batch begins the next segment; by the times of records, not by a clock, as in Kafka."""
        is_full = segment.size + head.end - head.start > self.segment_bytes
        return is_full or head.max_timestamp_ms - segment.first_ms > self.segment_ms

    def roll(self) -> None:
        """Begin a new segment, unless the last one is empty."""
        if self._segments[-1].size:
            self._begin_segment(self.end_offset)

    def _begin_segment(self, base_offset: int) -> Segment:
        if self.flushes_full_segments:
            self.flush()
        segment = Segment.open(self._directory, base_offset)
        self._segments.append(segment)
        self._are_names_durable = False
        return segment

    def extents(self) -> list[Extent]:
        """Where each segment begins and ends, its size and its times."""
        ends = [*(each.base_offset for each in self._segments[1:]), self.end_offset]
        return [
            Extent(each.base_offset, end, each.size, each.first_ms, each.latest_ms)
            for each, end in zip(self._segments, ends, strict=True)
        ]

    def read(self, offset: int, max_bytes: int, end: int) -> bytes:
        """Whole batches from the one that holds offset on, or the next one, which end at or before `end`: up to
        max_bytes, but at least one batch if there is one. They are of one segment."""
        if not self.start_offset <= offset < min(end, self.end_offset):
            return b""
        later = self._segments[self._number_of(offset) :]
        return next(filter(None, (self._read(segment, offset, max_bytes, end) for segment in later)), b"")

    def _read(self, segment: Segment, offset: int, max_bytes: int, end: int) -> bytes:
        start = stop = -1
        for head, _ in segment.heads(segment.position_before(offset)):
            if head.last_offset < offset:
                continue
            if head.last_offset >= end or (start >= 0 and head.end - start > max_bytes):
                break
            start, stop = (head.start if start < 0 else start), head.end
        return b"" if start < 0 else os.pread(segment.file, stop - start, start)

    def batches(self, offset: int) -> Iterator[tuple[BatchHead, bytes]]:
        """The batches that end after offset, with their headers."""
        for segment in self._segments[self._number_of(offset) :]:
            for head, batch in segment.heads(segment.position_before(offset)):
                if head.last_offset >= offset:
                    yield head, batch

    def truncate(self, offset: int) -> None:
        """Remove every batch that ends after offset."""
        if offset >= self.end_offset:
            return
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._segments.pop().remove()
            self._are_names_durable = False
        segment = self._segments[-1]
        size = segment.position_before(offset - 1)
        for head, _ in segment.heads(size):
            if head.last_offset >= offset:
                break
            size = head.end
        segment.cut(size)
        self._set_end(segment)
        self._flushed_to = min(self._flushed_to, self.end_offset)

    def truncate_fully(self, offset: int) -> None:
        """Remove everything; the next record has this offset."""
        for segment in reversed(self._segments):  # what a crash leaves has no gap
            segment.remove()
        self._segments, self._are_names_durable = [Segment.open(self._directory, offset)], False
        self.start_offset = self.end_offset = self._flushed_to = offset

    def delete_before(self, offset: int) -> None:
        """Remove the segments that end at or before offset, but the last one; what is below is no longer read."""
        while len(self._segments) > 1 and self._segments[1].base_offset <= offset:
            self._segments.pop(0).remove()
            self._are_names_durable = False
        self.start_offset = max(self.start_offset, min(offset, self.end_offset))

    def replace(self, compacted: CompactedSegment) -> bool:
        """Let a compacted segment replace those that it was written from; False if the log has others by now."""
        number = self._number_of(compacted.base_offset)
        replaced = self._segments[number : number + len(compacted.replaces)]
        is_same = [(each.base_offset, each.size) for each in replaced] == list(compacted.replaces)
        if not is_same or number + len(replaced) >= len(self._segments):
            return False
        for each in replaced:
            each.close()
        compacted.take_over()
        self._segments[number : number + len(replaced)] = [Segment.open(self._directory, compacted.base_offset)]
        return True

    def flush(self) -> None:
        """Make the log durable, with the names of its segments."""
        for segment in self._segments[self._number_of(self._flushed_to) :]:
            os.fdatasync(segment.file)
        if not self._are_names_durable:
            sync_directory(self._directory)
        self._flushed_to, self._are_names_durable = self.end_offset, True

    def close(self) -> None:
        """Close all files."""
        for segment in self._segments:
            segment.close()

    def _number_of(self, offset: int) -> int:
        """Which segment holds the offset."""
        return max(0, bisect_right([each.base_offset for each in self._segments], offset) - 1)

    def _set_end(self, segment: Segment) -> None:
        """Set the end offset by the last batch of the last segment; the log does not start beyond it."""
        self.end_offset = segment.base_offset
        for head, _ in segment.heads(segment.positions[-1] if segment.positions else 0):
            self.end_offset = head.last_offset + 1
        self.start_offset = min(self.start_offset, self.end_offset)

    def _recover(self, recovery_point: int) -> int:
        """Verify the batches from the recovery point on, and index them anew; returns how many bytes were removed."""
        number = self._number_of(recovery_point)
        self.end_offset = self._segments[number].base_offset
        while number < len(self._segments):
            segment = self._segments[number]
            torn = self._verify(segment, segment.position_before(recovery_point))
            number += 1
            if torn:
                later = self._segments[number:]
                del self._segments[number:]
                for each in later:
                    torn += each.size
                    each.remove()
                return torn
        return 0

    def _verify(self, segment: Segment, position: int) -> int:
        """Verify a segment from this position on, up to the first batch that is torn; returns the bytes from there."""
        segment.forget_entries(position)
        if position:
            first, _ = next(segment.heads(position))
            segment.add_entry(first.base_offset, position)
        end = position
        for head, batch in segment.heads(position):
            is_damaged = self._recovery.verifies_checksums and not is_intact(batch, at_start(head))
            if is_damaged or head.base_offset < self.end_offset:
                break
            if head.start and segment.unindexed_bytes >= INDEX_INTERVAL:
                segment.add_entry(head.base_offset, head.start)
            segment.unindexed_bytes += len(batch)
            if not self.verified_epochs or self.verified_epochs[-1][0] != head.leader_epoch:
                self.verified_epochs.append((head.leader_epoch, head.base_offset))
            end, self.end_offset = head.end, head.last_offset + 1
        torn = segment.size - end
        if torn and self._recovery.removes_torn:
            segment.cut(end)
        return torn


def at_start(head: BatchHead) -> BatchHead:
    """The header of a batch in its own bytes."""
    return replace(head, start=0, end=head.end - head.start)
