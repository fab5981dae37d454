"""NominateVoter version 0: an observer tells the leader that it has caught up, and asks to become a voter.

Source: KIP-642, "Observer Promotion", the observer-based approach, which the KIP describes and does not prefer. It
gives no API for it; the fields are those of BeginQuorumEpoch as far as they apply, and 643 is a key that no release of
Kafka has.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedPartition:
    """The quorum's partition."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(643)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    """The partition's number."""
    replica_id: BrokerId = field(metadata={"kafka_type": "int32"})
    """The observer."""
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"})
    """The epoch of the leader with which it has caught up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedTopic:
    """The quorum's topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(643)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    topic_name: TopicName = field(metadata={"kafka_type": "string"})
    """The topic's name."""
    partitions: tuple[RequestedPartition, ...]
    """One partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NominateVoterRequest:
    """An observer's request."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(643)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    cluster_id: str | None = field(metadata={"kafka_type": "string"})
    """The observer's cluster."""
    topics: tuple[RequestedTopic, ...]
    """One topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredPartition:
    """Whether the leader has noted it."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(643)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    """The partition's number."""
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    """The error, or none."""
    leader_id: BrokerId = field(metadata={"kafka_type": "int32"})
    """The leader that the receiver knows, -1 if none."""
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"})
    """The receiver's epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredTopic:
    """The quorum's topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(643)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic_name: TopicName = field(metadata={"kafka_type": "string"})
    """The topic's name."""
    partitions: tuple[AnsweredPartition, ...]
    """One partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NominateVoterResponse:
    """The leader's response."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(643)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    """An error that is not the partition's, or none."""
    topics: tuple[AnsweredTopic, ...]
    """One topic, unless there is an error."""
