"""Reads the batches of a partition's log from a node's directory, for comparing replicas when the run is over.

    batches = list(read_log(1, data / "__cluster_metadata-0"))

Segments (`*.log`) are read in the order of their names, which are offsets. Bytes behind the last sound batch are a tail
that a crash has torn, and no batch; a batch whose checksum fails with a sound one behind it is told as not intact. The
server must have ended: a log that is being written has no one moment.

What may live here: the way from files to LoggedBatch. What may not: comparing them.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kio.schema.voters_record.v0 import VotersRecord
from kio.serial import entity_reader

from harness.model.records.logged_batch import LoggedBatch
from nodes.wire.batches import BatchHead, heads, is_intact, records

QUORUM_LOG = "__cluster_metadata-0"
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_FROM = 43
"""Where a batch's header holds the producer's id, epoch and first sequence (KIP-98)."""

_VOTERS_TYPE = struct.pack(">h", 6)
"""The type, in a control record's key, of records that set the voters (KIP-853)."""


def read_log(node: int, folder: Path) -> Iterator[LoggedBatch]:
    """The node's batches in one partition's folder, e.g. `__cluster_metadata-0`, in order; none without a folder.

    Raises OSError where a file cannot be read.
    """
    epochs = read_checkpoint(folder / "leader-epoch-checkpoint")
    unsound: list[LoggedBatch] = []
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        for head in heads(data):
            batch = _logged(node, folder, data, head)
            batch = replace(batch, checkpoint_epoch=epoch_at(epochs, head.base_offset))
            if not batch.intact:
                unsound.append(batch)
                continue
            yield from unsound
            unsound.clear()
            yield batch


def partitions_in(data: Path) -> list[Path]:
    """The folders of a node's data directory that replicas are compared by: the quorum's log, and users' topics.

    Kafka's own topics are compacted, by each broker for itself, so that their replicas differ without being wrong.
    """
    named = (folder for folder in data.glob("*-*") if folder.is_dir() and folder.name.rpartition("-")[2].isdecimal())
    return sorted(folder for folder in named if folder.name == QUORUM_LOG or not folder.name.startswith("__"))


def split(folder: Path) -> tuple[str, int]:
    """The topic and the partition that a folder is named after."""
    topic, _, partition = folder.name.rpartition("-")
    return topic, int(partition)


def producer_of(data: bytes, head: BatchHead) -> tuple[int, int, int]:
    """The id, epoch and first sequence of the batch's producer."""
    return _PRODUCER.unpack_from(data, head.start + _PRODUCER_FROM)


def _logged(node: int, folder: Path, data: bytes, head: BatchHead) -> LoggedBatch:
    topic, partition = split(folder)
    producer_id, producer_epoch, base_sequence = producer_of(data, head)
    intact = is_intact(data, head)
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
        voters=_voters(data, head) if intact and head.is_control and not head.is_compressed else None,
    )


def _voters(data: bytes, head: BatchHead) -> str | None:
    """The ids of the voters that a control batch sets, as JSON; None where it sets none, or not in words we know."""
    for record in records(data, head):
        if record.key is not None and record.value is not None and record.key[2:4] == _VOTERS_TYPE:
            try:
                told, _ = entity_reader(VotersRecord)(record.value, 0)
            except Exception:  # noqa: BLE001 - kio raises errors of its own, of struct and of unicode
                return None
            return json.dumps(sorted(voter.voter_id for voter in told.voters))
    return None


def read_checkpoint(path: Path) -> list[tuple[int, int]] | None:
    """(first offset, epoch) of a leader-epoch-checkpoint, in order; None without a file, or one that is none.

    The file has a version, the number of entries, and an entry a line: epoch and first offset.
    """
    try:
        version, count, *lines = path.read_text(errors="replace").split("\n")
        entries = [(int(offset), int(epoch)) for epoch, offset in (line.split() for line in lines if line)]
    except (FileNotFoundError, ValueError):
        return None
    return sorted(entries) if (version, count) == ("0", str(len(entries))) else None


def epoch_at(entries: Sequence[tuple[int, int]] | None, offset: int) -> int | None:
    """The epoch of the last entry that begins no later than an offset; -1 without one, None without a checkpoint."""
    if entries is None:
        return None
    at = bisect_right(entries, offset, key=lambda entry: entry[0])
    return entries[at - 1][1] if at else -1
