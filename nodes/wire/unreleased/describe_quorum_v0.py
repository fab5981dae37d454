"""DescribeQuorum version 0 with the voters that a reassignment will end with.

Source: KIP-642, "DescribeQuorum". The field is tagged: a response without it has the bytes of Kafka's version 0, and a
reader that does not know it skips it. The tag is the KIP's number, since Kafka counts its own tags from 0. An empty
list stands for no reassignment, since no quorum has no voters. The request is Kafka's.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.describe_quorum.v0 import request
from kio.schema.describe_quorum.v0.response import ReplicaState
from kio.schema.errors import ErrorCode
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64

DescribeQuorumRequest = request.DescribeQuorumRequest
RequestedPartition, RequestedTopic = request.PartitionData, request.TopicData


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """The quorum of one partition."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(55)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    """The partition index."""
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    """The partition's error, or zero."""
    leader_id: BrokerId = field(metadata={"kafka_type": "int32"})
    """The leader, -1 if it is unknown."""
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"})
    """The latest known epoch."""
    high_watermark: i64 = field(metadata={"kafka_type": "int64"})
    """The high watermark."""
    current_voters: tuple[ReplicaState, ...]
    """The voters."""
    observers: tuple[ReplicaState, ...]
    """The observers."""
    target_voters: tuple[ReplicaState, ...] = field(metadata={"tag": 642}, default=())
    """The voters that the reassignment will end with; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicData:
    """The quorums of one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(55)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic_name: TopicName = field(metadata={"kafka_type": "string"})
    """The topic's name."""
    partitions: tuple[PartitionData, ...]
    """Its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponse:
    """The quorums that were asked for."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(55)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    """The error of the whole request, or zero."""
    topics: tuple[TopicData, ...]
    """The topics."""
