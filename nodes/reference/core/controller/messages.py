"""Requests to the controller and its responses, as frozen dataclasses; the shell converts them from and to kio's
entities.

Sources: KIP-631 (registration, heartbeats), KIP-497 and KIP-704 (AlterPartition), KIP-460 and KAFKA-20098
(ElectLeaders), KIP-455 (reassignment).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from nodes.reference.core.controller.changes import Election
from nodes.reference.core.records.acls import Acl, AclFilter
from nodes.reference.core.records.entities import NO_ID, BrokerEndpoint, BrokerFeature

TopicPartition = tuple[str, int]
"""A topic's name and a partition's index."""


class LogEnd(NamedTuple):
    """What a broker says of a replica's log: the epoch of its last record, and its end. The greater one has more."""

    last_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """Which logs does a broker have? partitions are topic ids and indexes, up to 1,000 of them (GetReplicaLogInfo)."""

    question_id: int
    broker_id: int
    partitions: tuple[tuple[uuid.UUID, int], ...]


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """A broker starts. previous_epoch is its last broker epoch if it was shut down cleanly, else -1 (KIP-966)."""

    broker_id: int
    cluster_id: str
    incarnation: uuid.UUID
    endpoints: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    directories: tuple[uuid.UUID, ...] = ()
    previous_epoch: int = -1


@dataclass(frozen=True, slots=True)
class RegisterBrokerResponse:
    """The epoch of the registration."""

    error: ErrorCode
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A broker is alive; metadata_offset is the offset up to which it has applied the metadata."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    wants_fence: bool = False
    wants_shutdown: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    """What the broker is now."""

    error: ErrorCode
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


@dataclass(frozen=True, slots=True)
class IsrChange:
    """What a leader wants its partition's ISR to be; broker epochs of -1 are not compared.

    has_recovered: the leader, elected uncleanly, has recovered.
    """

    topic_id: uuid.UUID
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]  # broker id and broker epoch
    has_recovered: bool = True


@dataclass(frozen=True, slots=True)
class AlterPartition:
    """A leader changes ISRs."""

    broker_id: int
    broker_epoch: int
    changes: tuple[IsrChange, ...]


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """An error, or the partition as it is then."""

    topic_id: uuid.UUID
    index: int
    error: ErrorCode
    leader: int = -1
    leader_epoch: int = 0
    partition_epoch: int = 0
    isr: tuple[int, ...] = ()
    is_recovering: bool = False


@dataclass(frozen=True, slots=True)
class AlterPartitionResponse:
    """One result for each change, or an error that concerns all."""

    error: ErrorCode
    results: tuple[PartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. assignments has the replicas of each partition; None lets the controller place them."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, tuple[int, ...]] | None = None
    configs: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Create topics; only_validated ones are not created."""

    topics: tuple[NewTopic, ...]
    only_validated: bool = False


@dataclass(frozen=True, slots=True)
class TopicResult:
    """What became of a topic."""

    name: str
    error: ErrorCode
    reason: str | None = None
    topic_id: uuid.UUID = NO_ID
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class TopicsResponse:
    """One result for each topic."""

    results: tuple[TopicResult, ...]


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Delete topics, by name."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A topic that gets partitions, until it has this many. assignments has the replicas of each new partition; None
    lets the controller place them."""

    topic: str
    partitions: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Add partitions to topics; only_validated ones are not added."""

    topics: tuple[MorePartitions, ...]
    only_validated: bool = False


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A config of a topic or a broker (an empty name means all brokers); None deletes it."""

    resource_type: int
    resource: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Change configs; those of one resource change together or not at all."""

    changes: tuple[ConfigChange, ...]
    only_validated: bool = False


@dataclass(frozen=True, slots=True)
class ResourceResult:
    """What became of the changes of one resource."""

    resource_type: int
    resource: str
    error: ErrorCode
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AlterConfigsResponse:
    """One result for each resource, in the order of the request."""

    results: tuple[ResourceResult, ...]


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Elect leaders of these partitions, or of all if None. designated: the leader of each, for that election."""

    election: Election
    partitions: Sequence[TopicPartition] | None
    designated: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """What became of one election."""

    topic: str
    index: int
    error: ErrorCode
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ElectLeadersResponse:
    """One result for each partition, or an error that concerns all."""

    error: ErrorCode
    results: tuple[ElectionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Reassign:
    """Replicate each partition on these brokers, in this order; None cancels its reassignment (KIP-455)."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]


@dataclass(frozen=True, slots=True)
class ReassignResponse:
    """One result for each partition."""

    results: tuple[ElectionResult, ...]


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    """A broker needs producer ids."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsResponse:
    """A block of producer ids that nobody else receives."""

    error: ErrorCode
    first: int = -1
    count: int = 0


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    """A broker will not come back."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class UnregisterBrokerResponse:
    """Whether it was registered."""

    error: ErrorCode
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CreateAcls:
    """Add these entries to the access control lists."""

    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    """Remove the entries that any of these filters matches."""

    filters: tuple[AclFilter, ...]


@dataclass(frozen=True, slots=True)
class AclResult:
    """What became of an entry, or of a filter, and the entries that it removed."""

    error: ErrorCode
    reason: str | None = None
    removed: tuple[Acl, ...] = ()


@dataclass(frozen=True, slots=True)
class AclsResponse:
    """One result for each entry, or for each filter."""

    results: tuple[AclResult, ...]


@dataclass(frozen=True, slots=True)
class NotController:
    """The node does not lead the quorum, or has not yet committed a record as its leader, or has stopped leading."""


ControllerRequest = (
    RegisterBroker
    | Heartbeat
    | AlterPartition
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterConfigs
    | ElectLeaders
    | Reassign
    | AllocateProducerIds
    | UnregisterBroker
    | CreateAcls
    | DeleteAcls
)
ControllerResponse = (
    RegisterBrokerResponse
    | HeartbeatResponse
    | AlterPartitionResponse
    | TopicsResponse
    | AlterConfigsResponse
    | ElectLeadersResponse
    | ReassignResponse
    | AllocateProducerIdsResponse
    | UnregisterBrokerResponse
    | AclsResponse
    | NotController
)
