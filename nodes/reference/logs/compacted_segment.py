"""Compaction on disk: writes a segment that has what is kept of some others, and lets it take their place.

    compacted = write_compacted(directory, sources, keep)       # in any thread: reads and writes files of its own
    compacted.take_over()                                       # in the thread of the log, which has closed the others

    DIR/cleaned/00000000000000000000.log     the new segment while it is being written
    DIR/swap-00000000000000000120/…          once it is complete: it replaces the segments up to offset 120

A crash leaves the old segments or the new one: what is in `cleaned` is removed when the log is opened, and a
replacement that has begun is finished. Kafka's suffixes `.cleaned` and `.swap` do the same.

Contains files. What is kept is decided in nodes/reference/core/partitions/compaction.py. Raises OSError.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.durable_files import sync_directory
from nodes.reference.logs.segment import Segment
from nodes.wire.batches import BatchHead, heads

CLEANED = "cleaned"
SWAP = "swap-"

Keep = Callable[[bytes, BatchHead], bytes]
"""What is kept of a batch, in its own bytes: a batch, or nothing."""


@dataclass(frozen=True, slots=True)
class Source:
    """A segment to compact: its file, its first offset, that after its last, and its size."""

    path: Path
    base_offset: int
    end_offset: int
    size: int

    def batches(self) -> Iterator[tuple[bytes, BatchHead]]:
        """Its batches; it is read by a file of its own, since the log may close the segment meanwhile."""
        file = os.open(self.path, os.O_RDONLY)
        try:
            segment = Segment(self.path, self.base_offset, file, file, self.size)
            for _, data in segment.heads(0):
                yield data, next(heads(data))
        finally:
            os.close(file)


@dataclass(frozen=True, slots=True)
class CompactedSegment:
    """A complete segment that has not taken over yet. replaces are first offset and size of those that it replaces."""

    directory: Path
    base_offset: int
    end_offset: int
    replaces: tuple[tuple[int, int], ...]

    def take_over(self) -> None:
        """Replace the others, which are closed."""
        (self.directory / CLEANED).rename(self.directory / f"{SWAP}{self.end_offset:020d}")
        sync_directory(self.directory)
        finish_replacements(self.directory)

    def discard(self) -> None:
        """Remove it; the log may be gone."""
        shutil.rmtree(self.directory / CLEANED, ignore_errors=True)


def write_compacted(directory: Path, sources: Sequence[Source], keep: Keep) -> CompactedSegment:
    """Write what is kept of consecutive segments as one, durably."""
    cleaned = directory / CLEANED
    shutil.rmtree(cleaned, ignore_errors=True)
    cleaned.mkdir()
    base_offset = sources[0].base_offset
    segment = Segment.open(cleaned, base_offset)
    try:
        for source in sources:
            for data, head in source.batches():
                kept = keep(data, head)
                if kept:
                    segment.append(memoryview(kept), head)
        os.fsync(segment.file)
        os.fsync(segment.index_file)
    except Exception:
        shutil.rmtree(cleaned, ignore_errors=True)
        raise
    finally:
        segment.close()
    replaces = tuple((each.base_offset, each.size) for each in sources)
    return CompactedSegment(directory, base_offset, sources[-1].end_offset, replaces)


def finish_replacements(directory: Path) -> None:
    """Finish the replacements of a log that were begun, and remove what was not complete."""
    shutil.rmtree(directory / CLEANED, ignore_errors=True)
    for swap in directory.glob(f"{SWAP}*"):
        files = sorted(swap.glob("*.log")) + sorted(swap.glob("*.index"))
        if files and files[0].suffix == ".log":
            _remove(directory, int(files[0].stem), int(swap.name.removeprefix(SWAP)))
        for file in files:
            file.rename(directory / file.name)
        swap.rmdir()


def _remove(directory: Path, base_offset: int, end_offset: int) -> None:
    """Remove the segments that begin between these offsets."""
    for path in directory.glob("*.log"):
        if base_offset <= int(path.stem) < end_offset:
            path.with_suffix(".index").unlink(missing_ok=True)
            path.unlink()
