"""GetReplicaLogInfo version 0: what a broker knows of its replicas' logs.

Source: KAFKA-20098, "GetReplicaLogInfo RPC". Against KIP-966 it adds HasMoreData and leaves LastWrittenLeaderEpoch out.
The form that Kafka's trunk had in 2025 also had the broker's id in the request.
"""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """The partitions of one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(93)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    """The unique topic ID."""
    partitions: tuple[i32, ...] = field(metadata={"kafka_type": "int32"}, default=())
    """The partitions of this topic whose replicas' logs are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReplicaLogInfoRequest:
    """Ask a broker for its replicas of at most 1,000 partitions; it answers for the first 1,000."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(93)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    topic_partitions: tuple[TopicPartitions, ...] | None
    """The topic partitions to query the log info for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLogInfo:
    """What the broker knows of its replica of one partition."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(93)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    partition: i32 = field(metadata={"kafka_type": "int32"})
    """The id for the partition."""
    partition_leader_epoch: i32 = field(metadata={"kafka_type": "int32"})
    """The current leader epoch for the partition from the broker point of view."""
    log_end_offset: i64 = field(metadata={"kafka_type": "int64"})
    """The log end offset for the partition."""
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    """The result error, or zero if there was no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitionLogInfo:
    """What the broker knows of its replicas of one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(93)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    """The unique topic ID."""
    partition_log_info: tuple[PartitionLogInfo, ...]
    """The log info of a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReplicaLogInfoResponse:
    """What a broker knows of the replicas that it was asked for."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(93)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    """The duration in ms for which the request was throttled due to a quota violation, or zero."""
    broker_epoch: i64 = field(metadata={"kafka_type": "int64"})
    """The epoch of the broker."""
    has_more_data: bool = field(metadata={"kafka_type": "bool"})
    """Whether the response lacks some of the partitions that were asked for: it has the first 1,000."""
    topic_partition_log_info_list: tuple[TopicPartitionLogInfo, ...]
    """The list of the partition log info."""
