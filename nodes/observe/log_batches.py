"""Reads the batches of a partition's log from a node's directory, to compare replicas after the run.

    batches = list(read_log(1, data / "__cluster_metadata-0"))

Segments (`*.log`) are read in the order of their names, which are offsets. Bytes after the last intact batch are a torn
tail and are ignored; a batch with a wrong checksum before an intact one is returned as not intact. The server must have
ended, since a log that is being written has no consistent state.

Contains the parsers. The comparison of replicas is a check.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from harness.model.records.logged_batch import LoggedBatch
from nodes.observe.control_records import control_records, election_of, voters_of
from nodes.wire.batches import BatchHead, heads_of_any_format, is_intact

QUORUM_LOG = "__cluster_metadata-0"
CLEANED = "cleaner-offset-checkpoint"
"""The file in a data directory that has, for each partition that was compacted, the offset up to which it was."""

_PRODUCER = struct.Struct(">qhi")
_PRODUCER_FROM = 43
"""The position in a batch's header of the producer's id, epoch and first sequence (KIP-98)."""


def read_log(node: int, folder: Path) -> Iterator[LoggedBatch]:
    """The node's batches in a partition's folder, e.g. `__cluster_metadata-0`, in order; empty without a folder.

    Segments may begin before the log does, at a snapshot: what is before it was deleted, though not yet from the disk.

    Raises OSError if a file cannot be read.
    """
    epochs = read_checkpoint(folder / "leader-epoch-checkpoint")
    start = snapshot_start(folder, epochs or [])
    cleaned_to = read_offsets(folder.parent / CLEANED).get(topic_partition_of(folder))
    damaged: list[LoggedBatch] = []
    for segment in sorted(folder.glob("*.log")):
        for each in batches_of(node, topic_partition_of(folder), segment.read_bytes()):
            if each.last_offset < start:
                continue
            batch = replace(each, checkpoint_epoch=epoch_at(epochs, each.base_offset), cleaned_to=cleaned_to)
            if not batch.intact:
                damaged.append(batch)
                continue
            yield from damaged
            damaged.clear()
            yield batch


def snapshot_start(folder: Path, epochs: Sequence[tuple[int, int]]) -> int:
    """The offset at which the log begins if a snapshot ends there, else 0: the first of its leader-epoch-checkpoint."""
    first = epochs[0][0] if epochs else 0
    return first if any(folder.glob(f"{first:020}-*.checkpoint")) else 0


def batches_of(node: int, topic_partition: tuple[str, int], data: bytes) -> Iterator[LoggedBatch]:
    """The batches in the bytes of a log or of a segment, in order, without what only a checkpoint file says."""
    for head in heads_of_any_format(data):
        yield _logged(node, topic_partition, data, head)


def partitions_in(data: Path) -> list[Path]:
    """The folders of the partitions whose replicas are compared: the quorum's log, and users' topics.

    Kafka's internal topics are compacted by each broker independently, so their replicas may differ.
    """
    folders = (folder for folder in data.glob("*-*") if folder.is_dir() and folder.name.rpartition("-")[2].isdecimal())
    return sorted(folder for folder in folders if folder.name == QUORUM_LOG or not folder.name.startswith("__"))


def topic_partition_of(folder: Path) -> tuple[str, int]:
    """The topic and the partition in a folder's name."""
    topic, _, partition = folder.name.rpartition("-")
    return topic, int(partition)


def producer_of(data: bytes, head: BatchHead) -> tuple[int, int, int]:
    """The id, epoch and first sequence of the batch's producer; messages before v2 have none."""
    if head.magic < 2:
        return -1, -1, -1
    return _PRODUCER.unpack_from(data, head.start + _PRODUCER_FROM)


def _logged(node: int, topic_partition: tuple[str, int], data: bytes, head: BatchHead) -> LoggedBatch:
    topic, partition = topic_partition
    producer_id, producer_epoch, base_sequence = producer_of(data, head)
    intact = is_intact(data, head)
    controls = control_records(data, head) if intact and head.is_control and not head.is_compressed else {}
    return LoggedBatch(
        node=node,
        topic=topic,
        partition=partition,
        base_offset=head.base_offset,
        last_offset=head.last_offset,
        leader_epoch=head.leader_epoch,
        crc=head.crc,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        control=head.is_control,
        intact=intact,
        voters=voters_of(controls),
        election=election_of(controls),
    )


def read_checkpoint(path: Path) -> list[tuple[int, int]] | None:
    """The entries (first offset, epoch) of a leader-epoch-checkpoint, in order; None if it is missing or invalid.

    The file has a version, the number of entries, and one entry per line: epoch and first offset.
    """
    try:
        version, count, *lines = path.read_text(errors="replace").split("\n")
        entries = [(int(offset), int(epoch)) for epoch, offset in (line.split() for line in lines if line)]
    except (FileNotFoundError, ValueError):
        return None
    return sorted(entries) if (version, count) == ("0", str(len(entries))) else None


def read_offsets(path: Path) -> dict[tuple[str, int], int]:
    """The offset of each partition in a file of partitions' offsets; empty if it is missing, incomplete or unreadable.

    The file has a version, the number of entries, and one entry per line: topic, partition and offset.
    """
    try:
        version, count, *lines = path.read_text(errors="replace").split("\n")
        rows = [line.split() for line in lines if line]
        entries = {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except (OSError, ValueError):
        return {}
    return entries if (version, count) == ("0", str(len(entries))) else {}


def epoch_at(entries: Sequence[tuple[int, int]] | None, offset: int) -> int | None:
    """The epoch of the last entry that begins at or before offset; -1 if there is none, None without a checkpoint."""
    if entries is None:
        return None
    at = bisect_right(entries, offset, key=lambda entry: entry[0])
    return entries[at - 1][1] if at else -1
