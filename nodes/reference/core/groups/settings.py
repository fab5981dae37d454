"""The settings of the group coordinator: Kafka's properties."""

from __future__ import annotations

from dataclasses import dataclass

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """A broker's settings of groups; they do not change while it runs.

    initial_rebalance_delay_ms: group.initial.rebalance.delay.ms, how long an empty group waits for more members.
    session_timeout_min_ms, session_timeout_max_ms: group.min.session.timeout.ms, group.max.session.timeout.ms.
    metadata_bytes_max: offset.metadata.max.bytes. partitions, replication_factor: offsets.topic.num.partitions and
    offsets.topic.replication.factor. commit_timeout_ms: offsets.commit.timeout.ms.
    """

    initial_rebalance_delay_ms: int = 3000
    session_timeout_min_ms: int = 6000
    session_timeout_max_ms: int = 1_800_000
    metadata_bytes_max: int = 4096
    partitions: int = 50
    replication_factor: int = 3
    commit_timeout_ms: int = 5000
