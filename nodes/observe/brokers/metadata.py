"""A broker's own view of the cluster, by a Metadata request: the controller, the live brokers, and each partition's
leader and replicas.

With KRaft the controller that a broker names is any broker, because it forwards requests (KIP-590), and the live
brokers are those that the controller has not fenced (KIP-631).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.model.session import Connection
from nodes.wire.codec import METADATA

REQUEST: Mapping[str, Any] = {
    "topics": None,
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition's leader (None if it has none), its leader epoch, and its in-sync replicas in ascending order."""

    leader: int | None
    epoch: int
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    """What one broker answers: the controller that it knows, the partitions of users' topics by name, e.g. t-0, and the
    brokers that it takes for live."""

    controller: int | None = None
    partitions: Mapping[str, PartitionState] = field(default_factory=dict)
    brokers: frozenset[int] = frozenset()


async def request_metadata(connection: Connection, timeout_ms: int) -> BrokerMetadata:
    """Call one broker. Raises the connection's errors."""
    response = await connection.call_latest(METADATA, REQUEST, timeout_ms)
    partitions = {
        f"{topic.name}-{each.partition_index}": PartitionState(
            _known(each.leader_id), int(each.leader_epoch), tuple(sorted(int(node) for node in each.isr_nodes))
        )
        for topic in response.topics
        if not topic.is_internal
        for each in topic.partitions
    }
    brokers = frozenset(int(broker.node_id) for broker in response.brokers)
    return BrokerMetadata(_known(response.controller_id), partitions, brokers)


def _known(node: int) -> int | None:
    return int(node) if node >= 0 else None
