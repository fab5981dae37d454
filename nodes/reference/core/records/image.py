"""The cluster's metadata as of an offset of the metadata log: brokers, topics, partitions and configs.

    image.apply(record)      # one of the records in records/entities.py
    image.topics["t"].partitions[0].leader

Contains what records change, by KIP-631 and KIP-966. Which records to write is decided in the other modules.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from nodes.reference.core.records.acls import Acl
from nodes.reference.core.records.entities import (
    KEPT,
    NO_LEADER,
    AclRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAclRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)


class ResourceType(IntEnum):
    """What a config belongs to, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker. epoch is the offset of its registration; a fenced broker leads no partition.

    is_stopping: it asked for a controlled shutdown, so it leads nothing more.
    """

    broker_id: int
    incarnation: uuid.UUID
    epoch: int
    endpoints: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    is_fenced: bool = True
    is_stopping: bool = False
    directories: tuple[uuid.UUID, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether it may lead partitions and join their in-sync replicas."""
        return not self.is_fenced and not self.is_stopping


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: who replicates it (in order of preference), who leads it, and who has all that is committed.

    elr: the replicas that left the ISR when it was as small as min.insync.replicas, and still have all that is
    committed (KIP-966); last_known_elr: of a partition without a leader, the one that led last.
    is_recovering: the leader was elected uncleanly and has not yet recovered (KIP-704). adding and removing are parts
    of replicas that a reassignment adds or removes.
    """

    topic_id: uuid.UUID
    topic: str
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    is_recovering: bool = False
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    directories: tuple[uuid.UUID, ...] = ()

    @property
    def has_leader(self) -> bool:
        """Whether it is online."""
        return self.leader != NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    def after(self, change: PartitionChangeRecord) -> Partition:
        """The partition with this change."""
        state = self.is_recovering if change.leader_recovery_state < 0 else bool(change.leader_recovery_state)
        changes_leader = change.leader != KEPT
        return replace(
            self,
            isr=_either(change.isr, self.isr),
            replicas=_either(change.replicas, self.replicas),
            adding=_either(change.adding_replicas, self.adding),
            removing=_either(change.removing_replicas, self.removing),
            elr=_either(change.eligible_leader_replicas, self.elr),
            last_known_elr=_either(change.last_known_elr, self.last_known_elr),
            directories=self.directories if change.directories is None else change.directories,
            leader=change.leader if changes_leader else self.leader,
            leader_epoch=self.leader_epoch + changes_leader,
            partition_epoch=self.partition_epoch + 1,
            is_recovering=state,
        )


def _either(changed: tuple[int, ...] | None, kept: tuple[int, ...]) -> tuple[int, ...]:
    return kept if changed is None else changed


@dataclass(slots=True)
class Topic:
    """A topic, and its partitions by index."""

    topic_id: uuid.UUID
    name: str
    partitions: dict[int, Partition] = field(default_factory=dict)


@dataclass(slots=True)
class Image:
    """The metadata: brokers by id, topics by name, configs by resource, each a mapping of names to values, and ACLs by
    id."""

    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    acls: dict[uuid.UUID, Acl] = field(default_factory=dict)
    _names: dict[uuid.UUID, str] = field(default_factory=dict)  # of the topics, by id

    def copy(self) -> Image:
        """An image that changes independently; what it contains is shared, as far as it is frozen."""
        return Image(
            dict(self.brokers),
            {name: Topic(each.topic_id, name, dict(each.partitions)) for name, each in self.topics.items()},
            {resource: dict(values) for resource, values in self.configs.items()},
            self.next_producer_id,
            dict(self.acls),
            dict(self._names),
        )

    def topic(self, topic_id: uuid.UUID) -> Topic | None:
        """The topic of this id."""
        return self.topics.get(self._names.get(topic_id, ""))

    def partition(self, topic: str, index: int) -> Partition | None:
        """One partition."""
        return self.topics[topic].partitions.get(index) if topic in self.topics else None

    def partitions(self) -> Iterator[Partition]:
        """All partitions, in order of their topics' names."""
        for name in sorted(self.topics):
            yield from self.topics[name].partitions.values()

    def is_active(self, broker: int) -> bool:
        """Whether the broker may lead partitions and join their in-sync replicas."""
        return broker in self.brokers and self.brokers[broker].is_active

    def config(self, topic: str, name: str, defaults: Mapping[str, str]) -> str:
        """A topic's config; the cluster's, or else the default, if it has none of its own."""
        of_topic = self.configs.get((ResourceType.TOPIC, topic), {})
        of_cluster = self.configs.get((ResourceType.BROKER, ""), {})
        return of_topic.get(name) or of_cluster.get(name) or defaults[name]

    def apply(self, record: MetadataRecord) -> None:
        """Take one record into account. Records come in the order of the log."""
        match record:
            case TopicRecord():
                self.topics[record.name] = Topic(record.topic_id, record.name)
                self._names[record.topic_id] = record.name
            case RemoveTopicRecord():
                self._remove_topic(record)
            case PartitionRecord():
                self._create_partition(record)
            case PartitionChangeRecord():
                self._change_partition(record)
            case ConfigRecord():
                self._configure(record)
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
            case AclRecord():
                self.acls[record.acl_id] = _acl(record)
            case RemoveAclRecord():
                del self.acls[record.acl_id]
            case _:
                self._apply_to_broker(record)

    def _apply_to_broker(
        self, record: RegisterBrokerRecord | UnregisterBrokerRecord | BrokerRegistrationChangeRecord
    ) -> None:
        match record:
            case RegisterBrokerRecord():
                self.brokers[record.broker_id] = Broker(
                    record.broker_id,
                    record.incarnation_id,
                    record.broker_epoch,
                    record.end_points,
                    record.features,
                    record.rack,
                    record.fenced,
                    record.in_controlled_shutdown,
                    record.log_dirs,
                )
            case UnregisterBrokerRecord():
                del self.brokers[record.broker_id]
            case BrokerRegistrationChangeRecord():
                broker = self.brokers[record.broker_id]
                self.brokers[record.broker_id] = replace(
                    broker,
                    is_fenced=record.fenced > 0 if record.fenced else broker.is_fenced,
                    is_stopping=broker.is_stopping or record.in_controlled_shutdown > 0,
                    directories=record.log_dirs or broker.directories,
                )

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._names.pop(record.topic_id)
        del self.topics[name]
        self.configs.pop((ResourceType.TOPIC, name), None)

    def _create_partition(self, record: PartitionRecord) -> None:
        name = self._names[record.topic_id]
        self.topics[name].partitions[record.partition_id] = Partition(
            record.topic_id,
            name,
            record.partition_id,
            record.replicas,
            record.isr,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.leader_recovery_state > 0,
            record.adding_replicas,
            record.removing_replicas,
            record.eligible_leader_replicas or (),
            record.last_known_elr or (),
            record.directories,
        )

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self.topics[self._names[record.topic_id]].partitions
        partitions[record.partition_id] = partitions[record.partition_id].after(record)

    def _configure(self, record: ConfigRecord) -> None:
        resource = record.resource_type, record.resource_name
        values = self.configs.setdefault(resource, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if not values:
            del self.configs[resource]


def acl_record(acl_id: uuid.UUID, acl: Acl) -> AclRecord:
    """The record that adds an entry."""
    return AclRecord(
        acl_id=acl_id,
        resource_type=acl.kind,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _acl(record: AclRecord) -> Acl:
    return Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )
