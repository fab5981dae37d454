"""Partitions as the cluster's Metadata describes them, and which of them are to be recovered.

Contains values and pure functions. Does not contain requests.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from harness.unclean_recovery.options import Address
from harness.unclean_recovery.outcomes import Outcome, Result, named


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition in a broker's metadata.

    replicas are in the order of the assignment. leader is None if there is none, or if error, which is "" otherwise,
    says why it is not known. topic_id is None if the broker does not name it.
    """

    topic_id: uuid.UUID | None
    replicas: tuple[int, ...]
    leader: int | None
    error: str = ""

    @property
    def is_offline(self) -> bool:
        """Whether the partition is known to have no leader."""
        return self.leader is None and not self.error


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What one broker knows: the addresses of brokers, the partitions, and the errors of topics."""

    brokers: Mapping[int, Address]
    partitions: Mapping[TopicPartition, PartitionState]
    topic_errors: Mapping[str, str]


def view_of(metadata: Any) -> ClusterView:
    """The view in a response to Metadata."""
    brokers = {int(each.node_id): Address(each.host, each.port) for each in metadata.brokers}
    partitions, errors = {}, {}
    for topic in metadata.topics:
        if topic.error_code is not ErrorCode.none:
            errors[topic.name] = named(topic.error_code)
        for each in topic.partitions:
            state = _state_of(each, getattr(topic, "topic_id", None))
            partitions[TopicPartition(topic.name, int(each.partition_index))] = state
    return ClusterView(brokers, partitions, errors)


def _state_of(partition: Any, topic_id: uuid.UUID | None) -> PartitionState:
    """A broker that cannot name the leader's address answers -1 too, with an error: that partition is not offline."""
    code, replicas = partition.error_code, tuple(map(int, partition.replica_nodes))
    if code is ErrorCode.leader_not_available:
        return PartitionState(topic_id, replicas, None)
    if partition.leader_id >= 0:
        return PartitionState(topic_id, replicas, int(partition.leader_id))
    is_offline = code in (ErrorCode.none, ErrorCode.replica_not_available)
    return PartitionState(topic_id, replicas, None, "" if is_offline else named(code))


@dataclass(frozen=True, slots=True)
class Targets:
    """What is to be recovered, and the outcomes of the partitions that are not."""

    offline: Mapping[TopicPartition, PartitionState]
    outcomes: Mapping[TopicPartition, Outcome]


def offline_partitions(view: ClusterView) -> list[TopicPartition]:
    """All partitions that are known to have no leader, in order."""
    return sorted(partition for partition, state in view.partitions.items() if state.is_offline)


def targets_of(listed: Sequence[TopicPartition], repeated: Iterable[TopicPartition], view: ClusterView) -> Targets:
    """Sort the listed partitions out: each is offline and is recovered, or has its outcome now.

    A partition that is listed more than once is not recovered: the list is not what its author meant.
    """
    offline, outcomes, twice = {}, {}, frozenset(repeated)
    for partition in listed:
        outcome = REPEATED if partition in twice else _outcome_now(partition, view)
        if outcome is None:
            offline[partition] = view.partitions[partition]
        else:
            outcomes[partition] = outcome
    return Targets(offline, outcomes)


REPEATED = Outcome(Result.FAILED, reason="the input lists it more than once")


def _outcome_now(partition: TopicPartition, view: ClusterView) -> Outcome | None:
    """The outcome of a partition that is not recovered; None if it is to be."""
    state = view.partitions.get(partition)
    if state is None:
        error = view.topic_errors.get(partition.topic, "the topic has no such partition")
        return Outcome(Result.FAILED, reason=error)
    if state.error:
        return Outcome(Result.FAILED, reason=f"its leader is not known: {state.error}")
    if state.leader is not None:
        return Outcome(Result.ALREADY_ONLINE, leader=state.leader)
    if state.topic_id is None:
        return Outcome(Result.FAILED, reason="the cluster does not name the topic's id")
    return None
