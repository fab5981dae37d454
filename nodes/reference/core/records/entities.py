"""The records of the metadata log about brokers, topics and partitions, declared as kio declares messages.

Contains schemas. Their frame in a record of the log is in metadata.py, their effect in
image.py. The api keys and versions are Kafka's (metadata/src/main/resources), so that
Kafka's tools read the log. Sources: KIP-631, KIP-858 (directories), KIP-966 (eligible leader replicas).
"""

import uuid
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kio.static.constants import EntityType

NO_LEADER = -1
"""The leader of a partition that has none."""

KEPT = -2
"""The leader of a PartitionChangeRecord that changes none."""

NO_ID = uuid.UUID(int=0)
"""The id of nothing: of an unknown topic, or of the directory of a replica that is not placed (KIP-858)."""

_INT8, _INT16, _INT32, _INT64 = ({"kafka_type": f"int{bits}"} for bits in (8, 16, 32, 64))
_PORT, _TEXT, _UUID, _BOOL = ({"kafka_type": name} for name in ("uint16", "string", "uuid", "bool"))


def _tagged(kafka_type: dict[str, str], tag: int, default: Any = None) -> Any:
    """A field that is written only if it differs from its default (KIP-482)."""
    return field(metadata={**kafka_type, "tag": tag}, default=default)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic is created; its partitions follow."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 2
    name: str = field(metadata=_TEXT)
    topic_id: uuid.UUID = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic is deleted, with its partitions and configs."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 9
    topic_id: uuid.UUID = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition is created. leader_recovery_state: 0 recovered, 1 recovering from an unclean election (KIP-704)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[int] = 2
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 3
    partition_id: int = field(metadata=_INT32)
    topic_id: uuid.UUID = field(metadata=_UUID)
    replicas: tuple[int, ...] = field(metadata=_INT32)
    isr: tuple[int, ...] = field(metadata=_INT32)
    removing_replicas: tuple[int, ...] = field(metadata=_INT32, default=())
    adding_replicas: tuple[int, ...] = field(metadata=_INT32, default=())
    leader: int = field(metadata=_INT32)
    leader_recovery_state: int = _tagged(_INT8, 0, 0)
    leader_epoch: int = field(metadata=_INT32, default=0)
    partition_epoch: int = field(metadata=_INT32, default=0)
    directories: tuple[uuid.UUID, ...] = field(metadata=_UUID, default=())
    eligible_leader_replicas: tuple[int, ...] | None = _tagged(_INT32, 1)
    last_known_elr: tuple[int, ...] | None = _tagged(_INT32, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """What changes about a partition; fields with their defaults do not change.

    A leader other than KEPT raises the leader epoch, also if it is the same leader; every change raises the partition
    epoch.
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[int] = 2
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 5
    partition_id: int = field(metadata=_INT32)
    topic_id: uuid.UUID = field(metadata=_UUID)
    isr: tuple[int, ...] | None = _tagged(_INT32, 0)
    leader: int = _tagged(_INT32, 1, KEPT)
    replicas: tuple[int, ...] | None = _tagged(_INT32, 2)
    removing_replicas: tuple[int, ...] | None = _tagged(_INT32, 3)
    adding_replicas: tuple[int, ...] | None = _tagged(_INT32, 4)
    leader_recovery_state: int = _tagged(_INT8, 5, -1)
    eligible_leader_replicas: tuple[int, ...] | None = _tagged(_INT32, 6)
    last_known_elr: tuple[int, ...] | None = _tagged(_INT32, 7)
    directories: tuple[uuid.UUID, ...] | None = _tagged(_UUID, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A config of a resource is set to a value, or deleted."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 4
    resource_type: int = field(metadata=_INT8)
    resource_name: str = field(metadata=_TEXT)
    name: str = field(metadata=_TEXT)
    value: str | None = field(metadata=_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """One listener of a broker. security_protocol: 0 is PLAINTEXT, 2 SASL_PLAINTEXT."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 3
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_TEXT)
    host: str = field(metadata=_TEXT)
    port: int = field(metadata=_PORT)
    security_protocol: int = field(metadata=_INT16, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFeature:
    """The levels of a feature that a broker supports."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 3
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_TEXT)
    min_supported_version: int = field(metadata=_INT16)
    max_supported_version: int = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A broker registers; broker_epoch is the offset of this record. A fenced broker leads no partition."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[int] = 3
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 0
    broker_id: int = field(metadata=_INT32)
    is_migrating_zk_broker: bool = field(metadata=_BOOL, default=False)
    incarnation_id: uuid.UUID = field(metadata=_UUID)
    broker_epoch: int = field(metadata=_INT64)
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = field(metadata=_TEXT, default=None)
    fenced: bool = field(metadata=_BOOL, default=True)
    in_controlled_shutdown: bool = field(metadata=_BOOL, default=False)
    log_dirs: tuple[uuid.UUID, ...] = _tagged(_UUID, 0, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    """A broker is gone for good."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 1
    broker_id: int = field(metadata=_INT32)
    broker_epoch: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    """What changes about a broker. fenced: 1 fenced, -1 unfenced; in_controlled_shutdown: 1 begun; 0 as before."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[int] = 2
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 17
    broker_id: int = field(metadata=_INT32)
    broker_epoch: int = field(metadata=_INT64)
    fenced: int = _tagged(_INT8, 0, 0)
    in_controlled_shutdown: int = _tagged(_INT8, 1, 0)
    log_dirs: tuple[uuid.UUID, ...] = _tagged(_UUID, 2, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """A broker received the block of producer ids below next_producer_id."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 15
    broker_id: int = field(metadata=_INT32)
    broker_epoch: int = field(metadata=_INT64)
    next_producer_id: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRecord:
    """Kafka's AccessControlEntryRecord: an entry of the access control lists is added."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 18
    acl_id: uuid.UUID = field(metadata=_UUID)
    resource_type: int = field(metadata=_INT8)
    resource_name: str = field(metadata=_TEXT)
    pattern_type: int = field(metadata=_INT8)
    principal: str = field(metadata=_TEXT)
    host: str = field(metadata=_TEXT)
    operation: int = field(metadata=_INT8)
    permission_type: int = field(metadata=_INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAclRecord:
    """Kafka's RemoveAccessControlEntryRecord: an entry is removed."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 19
    acl_id: uuid.UUID = field(metadata=_UUID)


MetadataRecord = (
    TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | ConfigRecord
    | RegisterBrokerRecord
    | UnregisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | ProducerIdsRecord
    | AclRecord
    | RemoveAclRecord
)

RECORD_TYPES: dict[tuple[int, int], Any] = {
    (each.__api_key__, each.__version__): each for each in MetadataRecord.__args__
}
"""The records by api key and version."""
