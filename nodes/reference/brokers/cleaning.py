"""Retention and compaction of a broker's logs: when they are due, and the files that they change.

    cleaning = Cleaning(logs, intervals, start_at, fail)
    cleaning.begin(high_watermarks)           # in the loop, now and then: what is due, if nothing is under way
    cleaning.deadline_ms
    await cleaning.close()

Retention removes files, which takes no time. A compaction reads and writes whole segments, so it is written in a thread
of its own, from files of its own; the loop then lets the new segment replace the old ones. One log is compacted at a
time, the one with the largest dirty share first, as Kafka's log cleaner does with one thread.

Contains the schedule. What is deleted and kept is decided in nodes/reference/core/partitions (retention.py,
compaction.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain

from nodes.reference.brokers.log_store import LogStore
from nodes.reference.core.partitions.compaction import Cleanable, Latest, cleanable, compacted
from nodes.reference.core.partitions.messages import TopicPartition
from nodes.reference.core.partitions.retention import start_after_retention
from nodes.reference.logs.compacted_segment import CompactedSegment, Source, write_compacted
from nodes.reference.logs.disk_log import DiskLog

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Intervals:
    """log.retention.check.interval.ms and log.cleaner.backoff.ms."""

    retention_ms: int = 300_000
    cleaner_ms: int = 15_000


class Cleaning:
    """The retention and compaction of one broker's logs."""

    def __init__(
        self,
        logs: LogStore,
        intervals: Intervals,
        start_at: Callable[[Offsets], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """start_at: retention moves the starts of these logs."""
        self._logs, self._intervals = logs, intervals
        self._start_at, self._fail = start_at, fail
        self._compacting: asyncio.Task[None] | None = None
        now_ms = monotonic_ms()
        self._retention_ms, self._cleaner_ms = now_ms + intervals.retention_ms, now_ms + intervals.cleaner_ms

    @property
    def deadline_ms(self) -> int:
        """When something is due again, by the monotonic clock."""
        return min(self._retention_ms, self._cleaner_ms)

    def begin(self, high_watermarks: Offsets) -> None:
        """Do what is due."""
        now_ms = monotonic_ms()
        if now_ms >= self._retention_ms:
            self._retention_ms = now_ms + self._intervals.retention_ms
            self._delete_old(high_watermarks)
        if now_ms >= self._cleaner_ms:
            self._cleaner_ms = now_ms + self._intervals.cleaner_ms
            if self._compacting is None or self._compacting.done():
                self._compacting = asyncio.create_task(self._compact(high_watermarks))

    async def close(self) -> None:
        """Wait for the compaction under way, whose thread cannot be ended."""
        if self._compacting is not None:
            await self._compacting

    def _delete_old(self, high_watermarks: Offsets) -> None:
        starts: dict[TopicPartition, int] = {}
        for partition, log in self._logs.open_logs.items():
            extents, reached = log.extents(), high_watermarks.get(partition, 0)
            start = start_after_retention(extents, self._logs.config_of(partition.topic), reached, wall_ms())
            if start > extents[0].base_offset:
                if start == log.end_offset:
                    log.roll()
                starts[partition] = max(start, log.start_offset)
        if starts:
            self._start_at(starts)

    async def _compact(self, high_watermarks: Offsets) -> None:
        """Compact the logs that need it; a failure ends the node, since its files may not be right."""
        try:
            for partition, wanted in self._cleanable(high_watermarks):
                log = self._logs.open_logs.get(partition)
                with suppress(FileNotFoundError):  # the log was truncated, cleaned or removed meanwhile
                    if log is not None and await self._compact_one(log, wanted):
                        self._logs.cleaned.update({partition: wanted.end})
        except Exception as failure:  # noqa: BLE001 - as of any other effect on the disk
            self._fail(failure)

    def _cleanable(self, high_watermarks: Offsets) -> Sequence[tuple[TopicPartition, Cleanable]]:
        wanted = {
            partition: cleanable(
                log.extents(),
                self._logs.cleaned.get(partition),
                self._logs.config_of(partition.topic),
                high_watermarks.get(partition, 0),
                wall_ms(),
            )
            for partition, log in self._logs.open_logs.items()
        }
        found = [(partition, each) for partition, each in wanted.items() if each is not None]
        return sorted(found, key=lambda item: item[1].dirty_share, reverse=True)

    async def _compact_one(self, log: DiskLog, wanted: Cleanable) -> bool:
        """Compact one log; False if it was truncated, or lost segments, meanwhile."""
        truncations = log.truncations
        sources = log.sources(wanted.end)
        latest = await asyncio.to_thread(_latest, sources, wanted)
        for group in groups(sources, log.segment_bytes):
            written = await asyncio.to_thread(_written, log, group, latest, wanted)
            if log.is_closed or log.truncations != truncations or not log.replace(written):
                written.discard()
                return False
        return True


def _latest(sources: Sequence[Source], wanted: Cleanable) -> Latest:
    dirty = (source.batches() for source in sources if source.end_offset > wanted.dirty)
    return Latest.of(chain.from_iterable(dirty))


def _written(log: DiskLog, group: Sequence[Source], latest: Latest, wanted: Cleanable) -> CompactedSegment:
    return write_compacted(log.directory, group, partial(compacted, latest=latest, wanted=wanted))


def groups(sources: Iterable[Source], segment_bytes: int) -> Iterator[list[Source]]:
    """Consecutive segments that become one: together they are not larger than a segment may be."""
    group: list[Source] = []
    for source in sources:
        if group and sum(each.size for each in (*group, source)) > segment_bytes:
            yield group
            group = []
        group.append(source)
    if group:
        yield group


def monotonic_ms() -> int:
    """The monotonic clock."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """The realtime clock, in Unix milliseconds: that of records' times."""
    return time.time_ns() // 1_000_000
