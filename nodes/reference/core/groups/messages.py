"""Requests and responses about groups as frozen dataclasses; the shell converts them from and to kio's entities.

Contains values. Each concerns one group, whatever Kafka's request is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.reference.core.partitions.messages import TopicPartition

NO_GENERATION: Final = -1
"""The generation of commits outside of the group protocol."""


class GroupState(StrEnum):
    """The state of a group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"  # waits until its members have joined
    COMPLETING_REBALANCE = "CompletingRebalance"  # waits for the assignments by its leader
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """What a member says of itself when it joins. protocols are its assignors with what each needs, the best first.

    instance: the name of a static member, which it keeps when it restarts (KIP-345).
    """

    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Join a group; member_id is "" for a new member. knows_its_id: it must come again with the id that it is given
    (KIP-394). may_skip_assignment: as the leader it can be told not to assign anything (KIP-814)."""

    group: str
    member_id: str
    protocol_type: str
    facts: MemberFacts
    knows_its_id: bool = True
    may_skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class JoinResponse:
    """A generation, its protocol and leader; members, with what each needs of the protocol, only for the leader.

    instances are the names of those members that are static.
    """

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: Mapping[str, bytes] = field(default_factory=dict)
    instances: Mapping[str, str] = field(default_factory=dict)
    skips_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Membership:
    """Of which generation of a group a member says to be. The protocol is None if it does not say, and so is the
    instance of a member that is not static."""

    group: str
    generation: int
    member_id: str
    protocol_type: str | None = None
    protocol: str | None = None
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """Ask for the member's assignment; the leader has the assignments of all."""

    membership: Membership
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class SyncResponse:
    """A member's assignment."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The member is alive."""

    membership: Membership


@dataclass(frozen=True, slots=True)
class Ended:
    """The response to a request that has no other result than an error or none."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Leaver:
    """A member that leaves; a static one may be named by its instance alone."""

    member_id: str
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """These members leave."""

    group: str
    members: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True)
class LeaveResponse:
    """One result for each member that was named, or an error that concerns all."""

    error: ErrorCode
    results: tuple[tuple[Leaver, ErrorCode], ...] = ()


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A position, the leader epoch of the record before it (-1 if unknown), and the client's own text."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = -1


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit positions, as a member of a generation or outside of the group protocol (NO_GENERATION)."""

    membership: Membership
    offsets: Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True)
class CommitResponse:
    """One result for each partition."""

    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """The committed offsets of these partitions, or of all (None)."""

    group: str
    partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class OffsetsResponse:
    """The committed offset of each partition; None if there is none."""

    error: ErrorCode
    offsets: Mapping[TopicPartition, CommittedOffset | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    """Describe a group; one that does not exist is dead."""

    group: str


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as DescribeGroups shows it."""

    member_id: str
    facts: MemberFacts
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as DescribeGroups and ListGroups show it."""

    error: ErrorCode
    group: str
    state: GroupState | None = None
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class ListGroups:
    """All groups of this coordinator."""


@dataclass(frozen=True, slots=True)
class GroupList:
    """The groups, without their members."""

    error: ErrorCode
    groups: tuple[GroupDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete a group that has no members."""

    group: str


Request = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | CommitOffsets
    | FetchOffsets
    | DescribeGroup
    | ListGroups
    | DeleteGroup
)
Response = (
    JoinResponse
    | SyncResponse
    | Ended
    | LeaveResponse
    | CommitResponse
    | OffsetsResponse
    | GroupDescription
    | GroupList
)
