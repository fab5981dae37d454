"""Requests and responses about partitions as frozen dataclasses; the shell converts them from and to kio's entities.

Contains values. One request may name many partitions, as Kafka's do; a response has one result for each of them.
Topics are named; the shell knows their ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.reference.core.messages import EpochEnd
from nodes.reference.core.partitions.epochs import NO_EPOCH, NO_OFFSET
from nodes.reference.core.partitions.questions import EpochAnswer, Question

NO_NODE: Final = -1
"""The leader of a partition without one, and the replica id of consumers."""

TO_HIGH_WATERMARK: Final = -1
"""DeleteRecords' offset that is none: all that is committed."""

LATEST, EARLIEST = -1, -2
"""ListOffsets' times that are none: the end and the start of the log."""


class TopicPartition(NamedTuple):
    """A topic's name and a partition's number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the metadata says of a partition: its replicas, its leader (or NO_NODE), and its in-sync replicas.

    partition_epoch counts its changes, leader_epoch its elections. is_recovering: the leader was elected uncleanly and
    has not recovered yet (KIP-704). Of the topic's configs, min_isr is min.insync.replicas, and is_only_compacted says
    that cleanup.policy is compact, without delete.
    """

    partition: TopicPartition
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    is_recovering: bool = False
    min_isr: int = 1
    is_only_compacted: bool = False


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """Append these batches; acks is 0, 1, or -1 for all in-sync replicas."""

    acks: int
    timeout_ms: int
    batches: Mapping[TopicPartition, bytes]


@dataclass(frozen=True, slots=True)
class ProduceResult:
    """The offset of the first record, and the start of the log; -1 with an error."""

    error: ErrorCode = ErrorCode.none
    base_offset: int = NO_OFFSET
    start_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class ProduceResponse:
    """One result for each partition."""

    results: Mapping[TopicPartition, ProduceResult]


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """Records from offset on. leader_epoch is that which the sender knows, last_epoch that of its last record.

    Either is NO_EPOCH if it is not sent. start_offset is that of a replica's log. Sources: KIP-320, KIP-595, KIP-107.
    """

    offset: int
    leader_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    max_bytes: int = 1024 * 1024
    start_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A replica's fetch, or a consumer's (NO_NODE). broker_epoch is that of the replica's registration (KIP-903)."""

    replica_id: int
    partitions: Mapping[TopicPartition, FetchPartition]
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10 * 1024 * 1024
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class FetchResult:
    """Batches, or where the replica's log diverges, or an error; start_offset is that of the leader's log."""

    error: ErrorCode = ErrorCode.none
    high_watermark: int = NO_OFFSET
    start_offset: int = NO_OFFSET
    diverging: EpochEnd | None = None
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """One result for each partition."""

    results: Mapping[TopicPartition, FetchResult]


@dataclass(frozen=True, slots=True)
class EpochQuestion:
    """A question about epochs, and the leader epoch that the sender knows."""

    question: Question
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class EpochRequest:
    """OffsetForLeaderEpoch, and the questions of KIP-279's alternatives."""

    replica_id: int
    questions: Mapping[TopicPartition, EpochQuestion]


@dataclass(frozen=True, slots=True)
class EpochResponse:
    """One answer for each partition."""

    answers: Mapping[TopicPartition, EpochAnswer]


@dataclass(frozen=True, slots=True)
class OffsetQuestion:
    """Which is the first offset at this time or later, or LATEST, or EARLIEST?"""

    timestamp_ms: int
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class OffsetsRequest:
    """ListOffsets by a replica, or by a consumer (NO_NODE)."""

    replica_id: int
    questions: Mapping[TopicPartition, OffsetQuestion]


@dataclass(frozen=True, slots=True)
class OffsetAnswer:
    """An offset, its record's time (-1 for LATEST and EARLIEST) and its epoch; -1 if there is none."""

    error: ErrorCode = ErrorCode.none
    offset: int = NO_OFFSET
    timestamp_ms: int = -1
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class OffsetsResponse:
    """One answer for each partition."""

    answers: Mapping[TopicPartition, OffsetAnswer]


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """A leader's wish for its partition's ISR: broker ids with the epochs of their registrations, -1 if unknown."""

    partition: TopicPartition
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    has_recovered: bool = True


@dataclass(frozen=True, slots=True)
class IsrRequest:
    """AlterPartition: a broker's proposals (KIP-497)."""

    proposals: tuple[IsrProposal, ...]


@dataclass(frozen=True, slots=True)
class IsrResult:
    """What the controller decided on one proposal: an error, or the partition as it is then."""

    partition: TopicPartition
    error: ErrorCode = ErrorCode.none
    leader: int = NO_NODE
    leader_epoch: int = NO_EPOCH
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
    is_recovering: bool = False


@dataclass(frozen=True, slots=True)
class IsrResponse:
    """One result for each proposal, or an error that concerns all."""

    error: ErrorCode
    results: tuple[IsrResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteRecordsRequest:
    """Delete the records before these offsets, or, for TO_HIGH_WATERMARK, all that are committed (KIP-107)."""

    offsets: Mapping[TopicPartition, int]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class DeleteRecordsResult:
    """low_watermark is the start of the in-sync replica's log that starts first; -1 with an error."""

    error: ErrorCode = ErrorCode.none
    low_watermark: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class DeleteRecordsResponse:
    """One result for each partition."""

    results: Mapping[TopicPartition, DeleteRecordsResult]


Request = ProduceRequest | FetchRequest | EpochRequest | OffsetsRequest | DeleteRecordsRequest
Response = ProduceResponse | FetchResponse | EpochResponse | OffsetsResponse | DeleteRecordsResponse
