"""One segment of a partition's log: a file of record batches and its sparse index, in Kafka's format.

    segment = Segment.open(directory, base_offset)
    segment.append(batch, head)
    segment.position_before(offset)      # where to begin reading

Contains files. Which segments a log has is in segments.py. Raises OSError.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from nodes.wire.batches import HEADER_BYTES, BatchHead, heads

INDEX_INTERVAL = 4096
"""Kafka's index.interval.bytes."""

SCAN_BYTES = 1 << 20
NO_TIME = -1
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
    _first_ms: int | None = None  # of first_ms and latest_ms; None before they were read
    _latest_ms: int | None = None

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
            if len(data) < HEADER_BYTES:
                return  # a compaction reads what its log has cut meanwhile
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

    @property
    def first_ms(self) -> int:
        """The latest time of the records of the first batch; NO_TIME if there is none."""
        if self._first_ms is None:
            self._first_ms = next((head.max_timestamp_ms for head, _ in self.heads(0)), NO_TIME)
        return self._first_ms

    @property
    def latest_ms(self) -> int:
        """The latest time of all records; NO_TIME if there is none. Reads the header of each batch, once."""
        if self._latest_ms is None:
            self._latest_ms = max((head.max_timestamp_ms for head, _ in self.heads(0)), default=NO_TIME)
        return self._latest_ms

    def append(self, batch: memoryview, head: BatchHead) -> None:
        """Append one batch, and an entry of the index if it is due."""
        if not self.size:
            self._first_ms = self._latest_ms = head.max_timestamp_ms
        elif self._latest_ms is not None:
            self._latest_ms = max(self._latest_ms, head.max_timestamp_ms)
        if self.size and self.unindexed_bytes >= INDEX_INTERVAL:
            self.add_entry(head.base_offset, self.size)
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
        self.size, self._first_ms, self._latest_ms = size, None, None
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


def _write(file: int, data: memoryview, position: int) -> None:
    while data:
        written = os.pwrite(file, data, position)
        data, position = data[written:], position + written
