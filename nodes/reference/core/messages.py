"""What nodes and clients say to each other, as plain values; the shell translates them from and to kio's entities.

What may live here: frozen dataclasses. Versions of the wire format are no concern of the core's, with one exception:
a peer that does not know Pre-Vote is reported as Failed(unsupported_version=True).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

NO_NODE = -1
"""Kafka's id for 'unknown leader'."""


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """Ask for a vote in replica_epoch (or, as a pre-vote, whether it would be given), with the asker's log end."""

    cluster_id: str | None
    voter_id: int
    replica_id: int
    replica_epoch: int
    last_epoch: int
    end_offset: int
    pre_vote: bool = False


@dataclass(frozen=True, slots=True)
class VoteResponse:
    """The answer, with the leader (or NO_NODE) and epoch that the voter knows."""

    error: ErrorCode
    leader_id: int
    epoch: int
    granted: bool


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """A new leader makes itself known."""

    cluster_id: str | None
    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """A leader resigns; successors are in order of preference."""

    cluster_id: str | None
    leader_id: int
    epoch: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EpochResponse:
    """The answer to Begin- and EndQuorumEpoch."""

    error: ErrorCode
    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Ask for the log from fetch_offset; last_fetched_epoch is the epoch of the record before it."""

    cluster_id: str | None
    replica_id: int
    epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Where an epoch ends in a log: the offset after its last record."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """Batches of the leader's log, or where the asker's log diverges from it, or an error. high_watermark may be -1."""

    error: ErrorCode
    leader_id: int
    epoch: int
    high_watermark: int = -1
    diverging: EpochEnd | None = None
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Change:
    """One config of one resource set to value; None deletes it."""

    resource: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class AlterRequest:
    """A client's write, atomic."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class AlterResponse:
    """Whether the write is committed; reason goes with an error."""

    error: ErrorCode
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A client's read of whole resources."""

    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadResponse:
    """The configs of each resource asked for, as of one moment; reason goes with an error."""

    error: ErrorCode
    reason: str | None = None
    values: Mapping[str, Mapping[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest:
    """Who leads, and how far is everyone?"""


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """A replica as its leader knows it: offsets and wall-clock times, -1 for unknown."""

    replica_id: int
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class DescribeQuorumResponse:
    """The answer of a leader; of anyone else, error alone."""

    error: ErrorCode
    leader_id: int
    epoch: int
    high_watermark: int = -1
    voters: tuple[ReplicaView, ...] = ()
    observers: tuple[ReplicaView, ...] = ()


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | AlterRequest
    | ReadRequest
    | DescribeQuorumRequest
)
Response = VoteResponse | EpochResponse | FetchResponse | AlterResponse | ReadResponse | DescribeQuorumResponse
