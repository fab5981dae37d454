"""A broker's part of a node's properties: its listeners, and Kafka's keys of brokers, controllers and topics.

Contains the parser. What the settings do is in nodes/reference/core/controller/settings.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from nodes.reference.core.controller.settings import TOPIC_DEFAULTS, UNCLEAN_CHOICES, ControllerSettings

CONTROLLER_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "broker.session.timeout.ms": "session_timeout_ms",
        "unclean.leader.election.interval.ms": "unclean_interval_ms",
        "num.partitions": "default_partitions",
        "default.replication.factor": "default_replication_factor",
    }
)
"""Kafka's keys of the controller with numbers, and their fields."""

HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL_MS = "broker.heartbeat.interval.ms", 2000
ROLES = "process.roles"

SWITCHES: Mapping[str, str] = MappingProxyType(
    {
        "eligible_leader_replicas": "replicas that left a small ISR are still electable without a loss (KIP-966)",
        "pushes_out_old_leader": "a preferred election removes the old leader from the ISR (KIP-279, rejected)",
    }
)
CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType({"unclean_choice": UNCLEAN_CHOICES})
MEANINGS: Mapping[str, str] = MappingProxyType({"unclean_choice": "which live replica an unclean election takes"})

Endpoint = tuple[str, int]


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A broker: the address of each listener by its name, those that others use, and how often it sends heartbeats."""

    listeners: Mapping[str, Endpoint]
    advertised: Mapping[str, Endpoint]
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS


def is_used(key: str) -> bool:
    """Whether a property of Kafka's changes what a broker or the controller does."""
    return key in CONTROLLER_KEYS or key in (HEARTBEAT_INTERVAL, ROLES) or key in TOPIC_DEFAULTS


def controller_settings(cluster_id: str, values: Mapping[str, str], given: Mapping[str, Any]) -> ControllerSettings:
    """The controller's settings: fields that were parsed, and the defaults of topics among the properties."""
    topics = dict(TOPIC_DEFAULTS) | {name: value for name, value in values.items() if name in TOPIC_DEFAULTS}
    return ControllerSettings(cluster_id, topic_defaults=topics, **given)
