"""A broker's part of a node's properties: its listeners, and the keys of the controller, of partitions and of topics.

Contains which keys there are, and which setting each is. What the settings do is where they are declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from nodes.reference.brokers.cleaning import Intervals
from nodes.reference.core.controller.settings import TOPIC_DEFAULTS, UNCLEAN_CHOICES, ControllerSettings
from nodes.reference.core.groups.settings import GroupSettings
from nodes.reference.core.partitions.log_config import LogConfig
from nodes.reference.core.partitions.settings import TRUNCATION_ERRORS, PartitionSettings
from nodes.reference.core.partitions.truncation import TRUNCATIONS

Endpoint = tuple[str, int]

ROLES: Final = "process.roles"
REPLICATION: Final = "REPLICATION"
"""The name of the listener for other brokers, if there is one of its own."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A broker's shell: the settings of its partitions and groups, the address of each listener by its name and that
    which others use, Kafka's settings of heartbeats and files, and the passwords of users."""

    partitions: PartitionSettings
    groups: GroupSettings
    listeners: Mapping[str, Endpoint]
    advertised: Mapping[str, Endpoint]
    heartbeat_interval_ms: int = 2000
    checkpoint_interval_ms: int = 5000
    segment_bytes: int = LogConfig().segment_bytes
    retention_check_interval_ms: int = Intervals().retention_ms
    cleaner_backoff_ms: int = Intervals().cleaner_ms
    last_written_epochs: bool = True
    users: Mapping[str, str] = field(default_factory=dict)

    @property
    def replication_listener(self) -> str:
        """The listener at which brokers fetch from each other."""
        return REPLICATION if REPLICATION in self.listeners else next(iter(self.listeners))


Settings = type[ControllerSettings] | type[PartitionSettings] | type[GroupSettings] | type[BrokerConfig]


@dataclass(frozen=True, slots=True)
class Key:
    """A property: the settings that it is part of, and the field there. A switch of ours has values and a meaning;
    one without values is on or off, or lists users with their passwords. A key of Kafka's is a number of at least
    `least`."""

    settings: Settings
    field: str
    meaning: str = ""
    values: tuple[str, ...] = ()
    least: int = 1
    is_users: bool = False


KAFKA_KEYS: Final[Mapping[str, Key]] = MappingProxyType(
    {
        "broker.session.timeout.ms": Key(ControllerSettings, "session_timeout_ms"),
        "unclean.leader.election.interval.ms": Key(ControllerSettings, "unclean_interval_ms"),
        "unclean.recovery.timeout.ms": Key(ControllerSettings, "recovery_timeout_ms"),
        "num.partitions": Key(ControllerSettings, "default_partitions"),
        "default.replication.factor": Key(ControllerSettings, "default_replication_factor"),
        "replica.lag.time.max.ms": Key(PartitionSettings, "replica_lag_time_max_ms"),
        "replica.fetch.wait.max.ms": Key(PartitionSettings, "fetch_wait_max_ms"),
        "replica.fetch.backoff.ms": Key(PartitionSettings, "fetch_backoff_ms"),
        "replica.socket.timeout.ms": Key(PartitionSettings, "request_timeout_ms"),
        "broker.heartbeat.interval.ms": Key(BrokerConfig, "heartbeat_interval_ms"),
        "replica.high.watermark.checkpoint.interval.ms": Key(BrokerConfig, "checkpoint_interval_ms"),
        "log.segment.bytes": Key(BrokerConfig, "segment_bytes"),
        "log.retention.check.interval.ms": Key(BrokerConfig, "retention_check_interval_ms"),
        "log.cleaner.backoff.ms": Key(BrokerConfig, "cleaner_backoff_ms"),
        "offsets.topic.num.partitions": Key(GroupSettings, "partitions"),
        "offsets.topic.replication.factor": Key(GroupSettings, "replication_factor"),
        "offsets.commit.timeout.ms": Key(GroupSettings, "commit_timeout_ms"),
        "group.initial.rebalance.delay.ms": Key(GroupSettings, "initial_rebalance_delay_ms", least=0),
        "group.min.session.timeout.ms": Key(GroupSettings, "session_timeout_min_ms"),
        "group.max.session.timeout.ms": Key(GroupSettings, "session_timeout_max_ms"),
    }
)
"""Kafka's keys, all of them numbers."""

SWITCHES: Final[Mapping[str, Key]] = MappingProxyType(
    {
        "eligible_leader_replicas": Key(
            ControllerSettings,
            "eligible_leader_replicas",
            "replicas that left a small ISR are still electable without a loss (KIP-966)",
        ),
        "pushes_out_old_leader": Key(
            ControllerSettings,
            "pushes_out_old_leader",
            "a preferred election removes the old leader from the ISR (KIP-279, rejected)",
        ),
        "unclean_choice": Key(
            ControllerSettings, "unclean_choice", "which live replica an unclean election takes", UNCLEAN_CHOICES
        ),
        "truncation": Key(
            PartitionSettings,
            "truncation",
            "how a follower truncates its log before it fetches (KIP-101, KIP-279, KIP-320)",
            TRUNCATIONS,
        ),
        "truncation_error": Key(
            PartitionSettings,
            "truncation_error",
            "what follows if the leader does not say where to truncate: another request, or the fallback of KIP-279",
            TRUNCATION_ERRORS,
        ),
        "stores_high_watermark_at_leader_change": Key(
            PartitionSettings,
            "stores_high_watermark_at_leader_change",
            "high watermarks are stored when a leader changes (KIP-279, rejected)",
        ),
        "last_written_epochs": Key(
            BrokerConfig,
            "last_written_epochs",
            "brokers report the epoch of a replica's last record to the recovery tool (KIP-966, not KAFKA-20098)",
        ),
        "users": Key(
            BrokerConfig,
            "users",
            "users for tests, with SASL/PLAIN and access control lists; plans and reports show the passwords",
            is_users=True,
        ),
        "high_watermark_needs_min_isr": Key(
            PartitionSettings,
            "high_watermark_needs_min_isr",
            "the high watermark rises only while min.insync.replicas are in sync (KIP-966)",
        ),
    }
)
"""Our own, without their prefix."""


def is_used(key: str) -> bool:
    """Whether a property of Kafka's changes what a broker or the controller does."""
    return key in KAFKA_KEYS or key in TOPIC_DEFAULTS or key == ROLES


def controller_settings(cluster_id: str, values: Mapping[str, str], given: Mapping[str, Any]) -> ControllerSettings:
    """The controller's settings: fields that were parsed, and the defaults of topics among the properties."""
    topics = dict(TOPIC_DEFAULTS) | {name: value for name, value in values.items() if name in TOPIC_DEFAULTS}
    return ControllerSettings(cluster_id, topic_defaults=topics, **given)
