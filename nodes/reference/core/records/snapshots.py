"""Snapshots of the metadata (KIP-630): the records that make an image, and the voters, between two control records.

    data = snapshot_data(image, assignment, SnapshotId(120, 4), "cluster", timestamp_ms=0)
    contents(data)                      # Contents(image, assignment)
    continuing(log, SnapshotId(120, 4)) # the part of a log that follows the snapshot

A snapshot is a sequence of batches, as Kafka's RecordsSnapshotWriter writes it: a header with the voters, the records,
and a footer, without which it is not complete. Offsets begin at 0; the epoch is that of the snapshot's last record.

Contains the conversion between bytes and values. When a snapshot is made or fetched is in roles.snapshotting.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.static.primitive import i16, i64

from harness.model import PeerFailure
from nodes.reference.core.events import Assignment
from nodes.reference.core.messages import SnapshotId
from nodes.reference.core.records.control import (
    assignment_record,
    assignments_in,
    encoded,
    kraft_version_record,
    voters_record,
)
from nodes.reference.core.records.entities import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from nodes.reference.core.records.image import Broker, Image, Partition, acl_record
from nodes.reference.core.records.metadata import decode, encode
from nodes.wire.batches import Record, encode_batch, heads, intact_heads, records

_HEADER = struct.pack(">hh", 0, 3)  # a control record's key: version and type
_FOOTER = struct.pack(">hh", 0, 4)
_BATCH_RECORDS = 1000
_NO_BROKER = -1


@dataclass(frozen=True, slots=True)
class Contents:
    """What a snapshot says: the metadata, and the voters if the log had named any."""

    image: Image
    assignment: Assignment | None = None


def snapshot_data(
    image: Image, assignment: Assignment | None, snapshot_id: SnapshotId, cluster_id: str, timestamp_ms: int
) -> bytes:
    """The snapshot of an image; assignment is that of the voters, None if no record names them."""
    header = SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(timestamp_ms))
    first = [Record(_HEADER, encoded(header)), *_voters(cluster_id, assignment)]
    last = [Record(_FOOTER, encoded(SnapshotFooterRecord(version=i16(0))))]
    metadata = [encode(record) for record in records_of(image)]
    parts = [metadata[at : at + _BATCH_RECORDS] for at in range(0, len(metadata), _BATCH_RECORDS)]
    data, offset = b"", 0
    for batch in (first, *parts, last):
        data += encode_batch(batch, offset, snapshot_id.epoch, timestamp_ms, batch is first or batch is last)
        offset += len(batch)
    return data


def name_of(snapshot_id: SnapshotId) -> str:
    """The name of the snapshot's file, without its suffix."""
    return f"{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}"


def _voters(cluster_id: str, assignment: Assignment | None) -> Sequence[Record]:
    if assignment is None:
        return ()
    if assignment.nodes:
        return kraft_version_record(), voters_record(assignment.nodes)
    return (assignment_record(cluster_id, assignment),)


def records_of(image: Image) -> Iterator[MetadataRecord]:
    """The records that make this image out of an empty one."""
    for broker in image.brokers.values():
        yield _registration(broker)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        yield from map(_placement, topic.partitions.values())
    for (kind, name), values in image.configs.items():
        for key, value in values.items():
            yield ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=_NO_BROKER, broker_epoch=_NO_BROKER, next_producer_id=image.next_producer_id)
    for acl_id, acl in image.acls.items():
        yield acl_record(acl_id, acl)


def _registration(broker: Broker) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation,
        broker_epoch=broker.epoch,
        end_points=broker.endpoints,
        features=broker.features,
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_stopping,
        log_dirs=broker.directories,
    )


def _placement(partition: Partition) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition.index,
        topic_id=partition.topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_recovery_state=int(partition.is_recovering),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )


def contents(data: bytes) -> Contents:
    """The image and the voters of a snapshot. Raises PeerFailure for one that is damaged or not complete."""
    image, keys = Image(), []
    for head in intact_heads(data):
        for record in records(data, head):
            if head.is_control:
                keys.append(record.key)
            elif (metadata := decode(record)) is not None:
                image.apply(metadata)
    end = max((head.end for head in intact_heads(data)), default=0)
    if end != len(data) or keys[:1] != [_HEADER] or keys[-1:] != [_FOOTER]:
        raise PeerFailure(f"reading a snapshot of {len(data)} bytes: expected whole batches from a header to a footer")
    return Contents(image, max(assignments_in(data), default=(0, None), key=lambda found: found[0])[1])


def continuing(log: bytes, snapshot_id: SnapshotId) -> bytes:
    """The batches of a log that follow a snapshot: none, unless the log begins there or has its last record."""
    is_covered = True
    for head in heads(log):
        if head.base_offset >= snapshot_id.end_offset:
            return log[head.start :] if is_covered and head.base_offset == snapshot_id.end_offset else b""
        is_covered = head.last_offset + 1 == snapshot_id.end_offset and head.leader_epoch == snapshot_id.epoch
    return b""
