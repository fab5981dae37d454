"""Compaction of a log: of each key, the latest record stays (Kafka's log cleaner).

    wanted = cleanable(extents, cleaned_to, config, high_watermark, now_ms)    # None: nothing to do
    latest = Latest.of(batches from the first dirty offset on)
    compacted(data, head, latest, wanted)                                      # the batch with what is kept of it

A log has a clean part, which ends where the previous compaction ended, and a dirty one. A compaction reads the dirty
part, notes the latest offset of each key, and writes all segments from the start of the log on without the records that
a later one of the same key replaces. The active segment is never compacted, nor what is not committed.

A record without a value (a tombstone) deletes its key. It goes too once it is in the clean part and older than
delete.retention.ms. Kafka before KIP-534 decides by the times of files, since then by a time in the batch; here it is
the latest time of the batch's records. A batch of which nothing is kept goes, unless it is its producer's last: its
header has the sequence that the producer goes on from.

Contains pure functions over batches. A batch that is compressed, or has control records, is kept as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nodes.reference.core.partitions.log_config import NEVER, LogConfig
from nodes.reference.core.partitions.retention import Extent
from nodes.wire.batches import BatchHead, with_records
from nodes.wire.raw_records import RawRecord, raw_records


@dataclass(frozen=True, slots=True)
class Cleanable:
    """A compaction to be carried out: the log's start, the first dirty offset, the end of what is compacted.

    Tombstones before `dirty` whose batches have only times before tombstones_before_ms go.
    """

    start: int
    dirty: int
    end: int
    tombstones_before_ms: int

    @property
    def dirty_share(self) -> float:
        """The share of the offsets that are dirty."""
        return (self.end - self.dirty) / (self.end - self.start)


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest offset of each key of some batches, and that of the last batch of each producer."""

    offsets: Mapping[bytes, int]
    producers: Mapping[int, int]

    @classmethod
    def of(cls, batches: Iterable[tuple[bytes, BatchHead]]) -> Latest:
        """Those of these batches, which are in the order of their offsets."""
        offsets: dict[bytes, int] = {}
        producers: dict[int, int] = {}
        for data, head in batches:
            producers[head.producer_id] = head.base_offset
            if not is_opaque(head):
                offsets.update({each.key: each.offset for each in raw_records(data, head) if each.key is not None})
        return cls(offsets, producers)


def cleanable(
    extents: Sequence[Extent], cleaned_to: int, config: LogConfig, high_watermark: int, now_ms: int
) -> Cleanable | None:
    """What is to be compacted now of a log of these segments; None if it is not worth it, or not allowed.

    It is worth it if the dirty part is large enough, or has a record that is older than max.compaction.lag.ms.
    """
    if not config.is_compacted:
        return None
    start = extents[0].base_offset
    first_dirty = cleaned_to if start <= cleaned_to <= extents[-1].end_offset else start
    lagging_ms = now_ms - config.min_compaction_lag_ms
    end = start
    for extent in extents[:-1]:
        is_too_new = config.min_compaction_lag_ms > 0 and extent.max_timestamp_ms > lagging_ms
        if extent.end_offset > high_watermark or is_too_new:
            break
        end = extent.end_offset
    of_clean = sum(each.size_bytes for each in extents if each.end_offset <= first_dirty)
    dirty = [each for each in extents if each.end_offset > first_dirty and each.end_offset <= end]
    of_dirty = sum(each.size_bytes for each in dirty)
    is_large = of_dirty > 0 and of_dirty / (of_clean + of_dirty) > config.min_cleanable_ratio
    must = config.max_compaction_lag_ms != NEVER and any(
        now_ms - each.first_timestamp_ms > config.max_compaction_lag_ms for each in dirty
    )
    if end <= first_dirty or not (is_large or must):
        return None
    return Cleanable(start, first_dirty, end, now_ms - config.delete_retention_ms)


def is_opaque(head: BatchHead) -> bool:
    """Whether a batch is kept as it is."""
    return head.is_control or head.is_compressed


def compacted(data: bytes, head: BatchHead, latest: Latest, wanted: Cleanable) -> bytes:
    """The batch at head in data with the records that are kept; nothing if none is."""
    if is_opaque(head):
        return data[head.start : head.end]
    drops_tombstones = head.last_offset < wanted.dirty and head.max_timestamp_ms < wanted.tombstones_before_ms
    kept = [each for each in raw_records(data, head) if _is_kept(each, latest, drops_tombstones)]
    is_last_of_producer = head.producer_id >= 0 and latest.producers.get(head.producer_id, -1) <= head.base_offset
    if not kept and not is_last_of_producer:
        return b""
    if len(kept) == head.record_count:
        return data[head.start : head.end]
    return with_records(data, head, [each.data for each in kept])


def _is_kept(record: RawRecord, latest: Latest, drops_tombstones: bool) -> bool:
    """Kafka refuses records without a key in a compacted topic; those from before it was compacted go."""
    if record.key is None or latest.offsets.get(record.key, -1) > record.offset:
        return False
    return record.has_value or not drops_tombstones
