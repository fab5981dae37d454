"""OffsetForLeaderEpoch version 4 of Kafka, and a field that KIP-279's rejected alternative 2 needs.

The follower sends epochs of its log with their end offsets. The field is tagged: a request without it has the bytes of
Kafka's, and a broker of Kafka ignores it. The response is Kafka's; its epoch is -1 then. The KIP gives no schema; the
tag is the KIP's number, since Kafka counts its own tags from 0.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.types import BrokerId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64

__all__ = ["OffsetForLeaderEpochRequest", "OffsetForLeaderEpochResponse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfEpoch:
    """An epoch of the follower's log, and where it ends there."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(23)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"})
    """The epoch."""
    end_offset: i64 = field(metadata={"kafka_type": "int64"})
    """The offset after its last record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderPartition:
    """The question about one partition."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(23)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    partition: i32 = field(metadata={"kafka_type": "int32"})
    """The partition index."""
    current_leader_epoch: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    """The leader epoch that the requester knows, for fencing; -1 if none."""
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"})
    """The epoch to look up an offset for; the last of epoch_ends if there are any."""
    epoch_ends: tuple[EndOfEpoch, ...] = field(metadata={"tag": 279}, default=())
    """Alternative 2: epochs of the follower, the oldest first; the leader finds where the logs diverge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderTopic:
    """The partitions of one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(23)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    topic: TopicName = field(metadata={"kafka_type": "string"})
    """The topic name."""
    partitions: tuple[OffsetForLeaderPartition, ...]
    """Each partition to get offsets for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    """Where the logs of partitions end in an epoch, or where they diverge."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(23)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    replica_id: BrokerId = field(metadata={"kafka_type": "int32"}, default=BrokerId(-2))
    """The follower, -1 for a consumer."""
    topics: tuple[OffsetForLeaderTopic, ...]
    """Each topic to get offsets for."""
