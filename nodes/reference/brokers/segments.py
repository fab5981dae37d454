"""A partition's log on disk: segments of record batches, each with a sparse index, in Kafka's files.

    log = SegmentedLog(directory, segment_bytes=1 << 30)
    log.append(data)                    # complete batches that continue the log
    log.read(offset, max_bytes, end)    # whole batches from the one that holds offset, below end
    log.truncate(offset)                # whole batches: end_offset is at most offset afterwards

    DIR/00000000000000000000.log        record batches from this base offset on
    DIR/00000000000000000000.index      offset minus base, and position, for a batch every INDEX_INTERVAL bytes

Opening verifies the batches from the recovery point on, the offset up to which the log was flushed, by default the
first one of the last segment: a crash may have torn what was written later, and everything from the first torn batch on
is removed. What lies before is found by the indexes, so opening takes neither time nor memory for it.

Data is in the page cache when append returns, as in Kafka, and on disk after flush. Raises OSError.

Contains files and offsets. What an epoch is, and where to truncate, is in nodes/reference/core/partitions.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nodes.wire.batches import HEADER_BYTES, BatchHead, heads, is_intact

SEGMENT_BYTES = 1 << 30
INDEX_INTERVAL = 4096
"""Kafka's index.interval.bytes."""

SCAN_BYTES = 1 << 20
_ENTRY = struct.Struct(">ii")
_LENGTH_AT, _BEFORE_LENGTH_COVERS = 8, 12


@dataclass(slots=True)
class Segment:
    """One file of the log, and its index. size is that of its complete batches."""

    path: Path
    base_offset: int
    file: int
    index_file: int
    size: int
    offsets: array[int] = field(default_factory=lambda: array("q"))  # the index: offsets of batches, rising
    positions: array[int] = field(default_factory=lambda: array("q"))  # and where they are
    unindexed_bytes: int = 0  # since the last entry

    @classmethod
    def open(cls, directory: Path, base_offset: int) -> Segment:
        """Open or create a segment, with the entries of its index that may be right."""
        path = directory / f"{base_offset:020d}.log"
        file, index_file = (os.open(each, os.O_RDWR | os.O_CREAT, 0o644) for each in (path, path.with_suffix(".index")))
        segment = cls(path, base_offset, file, index_file, os.fstat(file).st_size)
        segment._read_index()
        return segment

    def position_before(self, offset: int) -> int:
        """The position of an indexed batch that begins at or before the offset."""
        at = bisect_right(self.offsets, offset)
        return self.positions[at - 1] if at else 0

    def heads(self, position: int) -> Iterator[tuple[BatchHead, bytes]]:
        """The headers of the batches from a position on, which is that of a batch, each with the batch itself."""
        while position + HEADER_BYTES <= self.size:
            data = os.pread(self.file, min(SCAN_BYTES, self.size - position), position)
            found = list(heads(data))
            if not found:
                # One batch is larger than what was read.
                (length,) = struct.unpack_from(">i", data, _LENGTH_AT)
                data = os.pread(self.file, length + _BEFORE_LENGTH_COVERS, position) if length > 0 else b""
                found = list(heads(data))
            for head in found:
                moved = replace(head, start=head.start + position, end=head.end + position)
                yield moved, data[head.start : head.end]
            if not found:
                return
            position += found[-1].end

    def append(self, batch: memoryview, offset: int) -> None:
        """Append one batch, and an entry of the index if it is due."""
        if self.size and self.unindexed_bytes >= INDEX_INTERVAL:
            self.add_entry(offset, self.size)
        _write(self.file, batch, self.size)
        self.unindexed_bytes += len(batch)
        self.size += len(batch)

    def add_entry(self, offset: int, position: int) -> None:
        """Add an entry to the index."""
        entry = _ENTRY.pack(offset - self.base_offset, position)
        _write(self.index_file, memoryview(entry), len(self.offsets) * _ENTRY.size)
        self.offsets.append(offset)
        self.positions.append(position)
        self.unindexed_bytes = 0

    def cut(self, size: int) -> None:
        """Remove everything from this position on, with its entries."""
        os.ftruncate(self.file, size)
        self.size = size
        self.forget_entries(size)

    def forget_entries(self, position: int) -> None:
        """Remove the entries of batches from this position on."""
        kept = bisect_right(self.positions, position - 1)
        del self.offsets[kept:], self.positions[kept:]
        os.ftruncate(self.index_file, kept * _ENTRY.size)
        self.unindexed_bytes = 0

    def close(self) -> None:
        """Close the files."""
        os.close(self.file)
        os.close(self.index_file)

    def remove(self) -> None:
        """Close and remove the files."""
        self.close()
        self.path.unlink()
        self.path.with_suffix(".index").unlink()

    def _read_index(self) -> None:
        """Take the entries as long as they rise, and the last of them is that of a batch."""
        data = os.pread(self.index_file, os.fstat(self.index_file).st_size, 0)
        for relative, position in _ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size]):
            offset = self.base_offset + relative
            if position >= self.size or (self.offsets and offset <= self.offsets[-1]):
                break
            self.offsets.append(offset)
            self.positions.append(position)
        while self.offsets and not self._is_entry_right():
            self.offsets.pop()
            self.positions.pop()
        os.ftruncate(self.index_file, len(self.offsets) * _ENTRY.size)

    def _is_entry_right(self) -> bool:
        head, _ = next(self.heads(self.positions[-1]), (None, b""))
        return head is not None and head.base_offset == self.offsets[-1]


class SegmentedLog:
    """The log of one partition. start_offset is that of its first record, or of the next if it is empty.

    torn_bytes is how much was removed when the log was opened. verified_epochs are the leader epochs of the batches
    that were verified then, each with the offset of its first one.
    """

    def __init__(self, directory: Path, segment_bytes: int = SEGMENT_BYTES, recovery_point: int | None = None) -> None:
        self._directory, self._segment_bytes = directory, segment_bytes
        directory.mkdir(parents=True, exist_ok=True)
        bases = sorted(int(path.stem) for path in directory.glob("*.log"))
        self._segments = [Segment.open(directory, base) for base in bases or [0]]
        self.start_offset = self.end_offset = self._segments[0].base_offset
        self.verified_epochs: list[tuple[int, int]] = []
        last = self._segments[-1].base_offset
        self.torn_bytes = self._recover(last if recovery_point is None else min(last, recovery_point))

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, for reading."""
        return self._segments

    def append(self, data: bytes) -> None:
        """Append complete batches; their offsets rise from end_offset on."""
        for head in heads(data):
            assert head.base_offset >= self.end_offset, f"a batch at {head.base_offset} after {self.end_offset}"
            segment = self._segments[-1]
            if segment.size and segment.size + head.end - head.start > self._segment_bytes:
                segment = Segment.open(self._directory, head.base_offset)
                self._segments.append(segment)
            segment.append(memoryview(data)[head.start : head.end], head.base_offset)
            self.end_offset = head.last_offset + 1

    def read(self, offset: int, max_bytes: int, end: int) -> bytes:
        """Whole batches from the one that holds offset on, which end at or before `end`: up to max_bytes, but at least
        one batch if there is one. They are of one segment."""
        if not self.start_offset <= offset < min(end, self.end_offset):
            return b""
        segment = self._segments[self._number_of(offset)]
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
        segment = self._segments[-1]
        size = segment.position_before(offset - 1)
        for head, _ in segment.heads(size):
            if head.last_offset >= offset:
                break
            size = head.end
        segment.cut(size)
        self._set_end(segment)

    def truncate_fully(self, offset: int) -> None:
        """Remove everything; the next record has this offset."""
        for segment in self._segments:
            segment.remove()
        self._segments = [Segment.open(self._directory, offset)]
        self.start_offset = self.end_offset = offset

    def delete_before(self, offset: int) -> None:
        """Remove the segments that end at or before offset, but the last one; what is below is read no more."""
        while len(self._segments) > 1 and self._segments[1].base_offset <= offset:
            self._segments.pop(0).remove()
        self.start_offset = max(self.start_offset, min(offset, self.end_offset))

    def flush(self) -> None:
        """Make the last segment durable, with its name."""
        os.fdatasync(self._segments[-1].file)
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

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
            if not is_intact(batch, replace(head, start=0, end=len(batch))) or head.base_offset < self.end_offset:
                break
            if head.start and segment.unindexed_bytes >= INDEX_INTERVAL:
                segment.add_entry(head.base_offset, head.start)
            segment.unindexed_bytes += len(batch)
            if not self.verified_epochs or self.verified_epochs[-1][0] != head.leader_epoch:
                self.verified_epochs.append((head.leader_epoch, head.base_offset))
            end, self.end_offset = head.end, head.last_offset + 1
        torn = segment.size - end
        if torn:
            segment.cut(end)
        return torn


def _write(file: int, data: memoryview, position: int) -> None:
    while data:
        written = os.pwrite(file, data, position)
        data, position = data[written:], position + written
