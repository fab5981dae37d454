"""Which segments of a log are deleted: those that are too old, or beyond the size of the log, the oldest first.

    start_after_retention(extents, config, high_watermark, now_ms)      # where the log starts then

A segment is deleted only if all its records are committed. The last one, to which records are appended, is deleted for
its age only: the log then goes on in a new segment. Source: Kafka's UnifiedLog.deleteOldSegments.

Contains pure functions. The files are the shell's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nodes.reference.core.partitions.log_config import NO_LIMIT, LogConfig


@dataclass(frozen=True, slots=True)
class Extent:
    """A segment: its first offset and that after it, its size, and the first and the latest time of its records.

    The times are -1 in an empty segment.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    first_timestamp_ms: int = -1
    max_timestamp_ms: int = -1


def start_after_retention(extents: Sequence[Extent], config: LogConfig, high_watermark: int, now_ms: int) -> int:
    """The first offset that is kept of a log of these segments; there is at least one."""
    start = extents[0].base_offset
    if not config.is_deleted:
        return start
    excess = sum(each.size_bytes for each in extents) - config.retention_bytes
    for number, extent in enumerate(extents):
        is_old = config.retention_ms != NO_LIMIT and now_ms - extent.max_timestamp_ms > config.retention_ms
        is_excess = config.retention_bytes != NO_LIMIT and excess >= extent.size_bytes and number < len(extents) - 1
        if not extent.size_bytes or extent.end_offset > high_watermark or not (is_old or is_excess):
            break
        start = extent.end_offset
        excess -= extent.size_bytes
    return start
