"""Requests and responses as frozen dataclasses; the shell converts them from and to kio's entities.

The core does not know versions of the wire format, with one exception: a peer that does not support Pre-Vote is
reported as Failed(unsupported_version=True).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.reference.core.controller.messages import ControllerRequest, ControllerResponse

NO_NODE = -1
"""Kafka's id of an unknown leader."""

NOT_FOLLOWER = ErrorCode.inconsistent_voter_set
"""KIP-642's error for a Fetch of a former voter; no release of Kafka has it, so one of the same meaning."""


@dataclass(frozen=True, slots=True)
class ReplicaKey:
    """A replica: its node and the id of its log directory, None where voters are known by their nodes alone.

    With KIP-853 a node that has lost its disk has another directory, and so is another replica.
    """

    node_id: int
    directory_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class VoterNode:
    """A voter of KIP-853: its replica, and where it listens for the quorum."""

    key: ReplicaKey
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """Requests a vote in replica_epoch, or a pre-vote; last_epoch and end_offset are the sender's log end.

    voter_directory_id is that of the voter who is asked, as the sender's log says; None if it says none.
    """

    cluster_id: str | None
    voter_id: int
    replica_id: int
    replica_epoch: int
    last_epoch: int
    end_offset: int
    pre_vote: bool = False
    directory_id: uuid.UUID | None = None
    voter_directory_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class VoteResponse:
    """The vote, with the leader (or NO_NODE) and the epoch that the voter knows."""

    error: ErrorCode
    leader_id: int
    epoch: int
    granted: bool


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """A new leader announces itself to a voter, whose directory is that of the leader's log, if that says any."""

    cluster_id: str | None
    leader_id: int
    epoch: int
    voter_directory_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """A leader resigns; successors are in order of preference."""

    cluster_id: str | None
    leader_id: int
    epoch: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EpochResponse:
    """The response to BeginQuorumEpoch, EndQuorumEpoch and NominateVoter."""

    error: ErrorCode
    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Requests the log from fetch_offset on; last_fetched_epoch is the epoch of the record before it.

    high_watermark is the follower's, -1 if it knows none (KIP-1166).
    """

    cluster_id: str | None
    replica_id: int
    epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    max_bytes: int
    high_watermark: int = -1
    directory_id: uuid.UUID | None = None

    @property
    def is_valid(self) -> bool:
        """Whether its numbers can be true."""
        is_known = min(self.max_wait_ms, self.fetch_offset, self.last_fetched_epoch) >= 0
        return is_known and self.last_fetched_epoch <= self.epoch


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The end of an epoch in a log: the offset after its last record."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class SnapshotId:
    """What a snapshot covers: the records below end_offset, the last of which has this epoch (KIP-630)."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """Batches of the leader's log, or where the follower's log diverges, or an error. high_watermark may be -1.

    snapshot_id: the snapshot to fetch, if the leader's log no longer begins where the follower's ends.
    """

    error: ErrorCode
    leader_id: int
    epoch: int
    high_watermark: int = -1
    diverging: EpochEnd | None = None
    data: bytes = b""
    snapshot_id: SnapshotId | None = None


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    """Requests the bytes of a snapshot from position on (KIP-630)."""

    cluster_id: str | None
    replica_id: int
    epoch: int
    snapshot_id: SnapshotId
    position: int
    max_bytes: int
    directory_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse:
    """The bytes of a snapshot from position on, of size bytes in all, or an error."""

    error: ErrorCode
    leader_id: int
    epoch: int
    snapshot_id: SnapshotId
    size: int = 0
    position: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Change:
    """One config of one resource set to value; None deletes it."""

    resource: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class AlterRequest:
    """A client's atomic write."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class AlterResponse:
    """Whether the write is committed; reason is the message of an error."""

    error: ErrorCode
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ReassignRequest:
    """Requests that the quorum's voters become these; None cancels the reassignment (KIP-642)."""

    voters: tuple[int, ...] | None
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ReassignResponse:
    """Whether the target is committed; the voters change afterwards. reason is the message of an error."""

    error: ErrorCode
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AddVoterRequest:
    """Requests that a replica become a voter; unless ack_when_committed, the response does not wait for the commit."""

    cluster_id: str | None
    voter: VoterNode
    timeout_ms: int
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True)
class RemoveVoterRequest:
    """Requests that a replica no longer be a voter (KIP-853)."""

    cluster_id: str | None
    voter: ReplicaKey
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class UpdateVoterRequest:
    """A voter tells the leader of this epoch where it listens now (KIP-853)."""

    cluster_id: str | None
    epoch: int
    voter: VoterNode


VoterRequest = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest


@dataclass(frozen=True, slots=True)
class VoterResponse:
    """Whether the change of one voter is done; leader and epoch are what the node knows."""

    error: ErrorCode
    leader_id: int
    epoch: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class NominateRequest:
    """An observer has caught up with the leader of this epoch, and asks to become a voter (KIP-642)."""

    cluster_id: str | None
    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Advertised:
    """Where a node listens for the quorum, and when it started by its own clock; -1 for a configured address."""

    node_id: int
    host: str
    port: int
    boot_ms: int = -1


@dataclass(frozen=True, slots=True)
class DiscoverRequest:
    """What a node knows: addresses, its own first, and the leader (or NO_NODE) of its epoch (KIP-642)."""

    cluster_id: str | None
    brokers: tuple[Advertised, ...]
    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class DiscoverResponse:
    """What the receiver of a DiscoverRequest knows."""

    error: ErrorCode
    brokers: tuple[Advertised, ...]
    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A client's read of all configs of some resources."""

    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadResponse:
    """The configs of each requested resource, at one point in time; reason is the message of an error."""

    error: ErrorCode
    reason: str | None = None
    values: Mapping[str, Mapping[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest:
    """Requests the leader and the progress of all replicas."""


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """A replica's progress as its leader knows it: offset and wall-clock times, -1 if unknown."""

    replica_id: int
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    directory_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class DescribeQuorumResponse:
    """The leader's description of the quorum; other nodes return an error only.

    target is that of the ongoing reassignment; None without one.
    """

    error: ErrorCode
    leader_id: int
    epoch: int
    high_watermark: int = -1
    voters: tuple[ReplicaProgress, ...] = ()
    observers: tuple[ReplicaProgress, ...] = ()
    target: tuple[ReplicaProgress, ...] | None = None


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AlterRequest
    | ReassignRequest
    | VoterRequest
    | NominateRequest
    | ReadRequest
    | DescribeQuorumRequest
    | DiscoverRequest
    | ControllerRequest
)
PeerRequest = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | NominateRequest
    | UpdateVoterRequest
)
"""What nodes send to each other."""

Response = (
    VoteResponse
    | EpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | AlterResponse
    | ReassignResponse
    | VoterResponse
    | ReadResponse
    | DescribeQuorumResponse
    | DiscoverResponse
    | ControllerResponse
)
