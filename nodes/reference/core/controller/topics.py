"""Topics: creation, deletion, more partitions (KIP-195), placement of replicas, and reassignment (KIP-455).

Contains the rules of requests about topics. Who leads is in changes.py.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kio.schema.errors import ErrorCode

from nodes.reference.core.controller.configs import why_invalid
from nodes.reference.core.controller.draft import Draft
from nodes.reference.core.controller.messages import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectionResult,
    MorePartitions,
    NewTopic,
    Reassign,
    ReassignResponse,
    TopicPartition,
    TopicResult,
    TopicsResponse,
)
from nodes.reference.core.records.entities import (
    NO_ID,
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from nodes.reference.core.records.image import Partition, ResourceType

NAME_MAX = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")

Assignments = Mapping[int, tuple[int, ...]]


class _Refused(Exception):
    """A request cannot be carried out."""

    def __init__(self, error: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.error, self.reason = error, reason


class Topics:
    """The topics of the active controller."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def create(self, request: CreateTopics) -> TopicsResponse:
        """Handle the creation of topics; each succeeds or fails by itself."""
        return TopicsResponse(tuple(self._create(topic, request.only_validated) for topic in request.topics))

    def delete(self, request: DeleteTopics) -> TopicsResponse:
        """Handle the deletion of topics."""
        return TopicsResponse(tuple(map(self._delete, request.names)))

    def add_partitions(self, request: CreatePartitions) -> TopicsResponse:
        """Handle the addition of partitions; each topic succeeds or fails by itself."""
        return TopicsResponse(tuple(self._add_partitions(more, request.only_validated) for more in request.topics))

    def reassign(self, request: Reassign) -> ReassignResponse:
        """Handle reassignments of partitions, and their cancellations."""
        return ReassignResponse(tuple(self._reassign(where, target) for where, target in request.targets.items()))

    def _create(self, topic: NewTopic, only_validated: bool) -> TopicResult:
        try:
            self._check_name(topic.name)
            assignments = self._assignments(topic)
            in_sync = self._in_sync(topic.name, assignments)
            self._check_configs(topic)
        except _Refused as refused:
            return TopicResult(topic.name, refused.error, refused.reason)
        topic_id = self._draft.random_id()
        if not only_validated:
            self._write(topic, topic_id, assignments, in_sync)
        factor = len(assignments[0])
        return TopicResult(topic.name, ErrorCode.none, None, topic_id, len(assignments), factor, topic.configs)

    def _write(self, topic: NewTopic, topic_id: uuid.UUID, assignments: Assignments, in_sync: Assignments) -> None:
        draft = self._draft
        draft.write(TopicRecord(name=topic.name, topic_id=topic_id))
        for name, value in (topic.configs or {}).items():
            draft.write(
                ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
            )
        self._write_partitions(topic_id, assignments, in_sync)

    def _write_partitions(self, topic_id: uuid.UUID, assignments: Assignments, in_sync: Assignments) -> None:
        for index, replicas in assignments.items():
            isr = in_sync[index]
            directories = tuple(map(self._directory, replicas))
            self._draft.write(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=isr,
                    leader=isr[0],
                    directories=directories,
                )
            )

    def _add_partitions(self, more: MorePartitions, only_validated: bool) -> TopicResult:
        topic = self._draft.image.topics.get(more.topic)
        if topic is None:
            return TopicResult(more.topic, ErrorCode.unknown_topic_or_partition, "There is no such topic.")
        count = len(topic.partitions)
        try:
            assignments = self._assignments_of_more(more, count, len(topic.partitions[0].replicas))
            in_sync = self._in_sync(more.topic, assignments)
        except _Refused as refused:
            return TopicResult(more.topic, refused.error, refused.reason)
        if not only_validated:
            self._write_partitions(topic.topic_id, assignments, in_sync)
        return TopicResult(more.topic, ErrorCode.none)

    def _assignments_of_more(self, more: MorePartitions, count: int, factor: int) -> Assignments:
        """The replicas of a topic's new partitions; it has count of them, with as many replicas as factor says."""
        added = more.partitions - count
        if added <= 0:
            reason = f"Topic {more.topic} has {count} partition(s): {more.partitions} would not be an increase."
            raise _Refused(ErrorCode.invalid_partitions, reason)
        if more.assignments is None:
            return self._placed(added, factor, count)
        if len(more.assignments) != added:
            reason = f"{added} partition(s) are added, with {len(more.assignments)} assignment(s)."
            raise _Refused(ErrorCode.invalid_replica_assignment, reason)
        for replicas in more.assignments:
            self._check_replicas(replicas)
            if len(replicas) != factor:
                reason = f"The topic's partitions have {factor} replica(s), a new one {len(replicas)}."
                raise _Refused(ErrorCode.invalid_replica_assignment, reason)
        return dict(enumerate(more.assignments, count))

    def _check_name(self, name: str) -> None:
        if name in self._draft.image.topics:
            raise _Refused(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
        if not _NAME.fullmatch(name) or name in (".", "..") or len(name) > NAME_MAX:
            raise _Refused(ErrorCode.invalid_topic_exception, f"Topic name is invalid: '{name[:NAME_MAX]}'")

    def _assignments(self, topic: NewTopic) -> Assignments:
        """The replicas of each partition, as requested, or placed."""
        if topic.assignments is not None:
            self._check_assignments(topic.assignments)
            return dict(sorted(topic.assignments.items()))
        settings = self._draft.settings
        count = settings.default_partitions if topic.partitions == -1 else topic.partitions
        factor = settings.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
        if count < 1:
            raise _Refused(ErrorCode.invalid_partitions, "Number of partitions must be larger than 0.")
        return self._placed(count, factor, 0)

    def _placed(self, count: int, factor: int, first_index: int) -> Assignments:
        """Replicas of this many partitions, on the live brokers in turn, beginning with a random one."""
        live = [node for node, broker in sorted(self._draft.image.brokers.items()) if broker.is_active]
        if not 1 <= factor <= len(live):
            reason = f"Unable to replicate the partition {factor} time(s): {len(live)} broker(s) are live."
            raise _Refused(ErrorCode.invalid_replication_factor, reason)
        first = self._draft.draw(0, len(live))
        return {first_index + index: _placed(live, first + index, factor) for index in range(count)}

    def _check_assignments(self, assignments: Assignments) -> None:
        if not assignments or sorted(assignments) != list(range(len(assignments))):
            reason = "Partitions should be a consecutive 0-based integer sequence."
            raise _Refused(ErrorCode.invalid_replica_assignment, reason)
        for replicas in assignments.values():
            self._check_replicas(replicas)
        if len({len(replicas) for replicas in assignments.values()}) != 1:
            raise _Refused(
                ErrorCode.invalid_replica_assignment, "All partitions should have the same number of replicas."
            )

    def _check_replicas(self, replicas: Sequence[int]) -> None:
        unknown = [node for node in replicas if node not in self._draft.image.brokers]
        if not replicas or len(set(replicas)) != len(replicas) or unknown:
            reason = f"expected different, registered brokers, found {list(replicas)}"
            raise _Refused(ErrorCode.invalid_replica_assignment, reason)

    def _check_configs(self, topic: NewTopic) -> None:
        for name, value in (topic.configs or {}).items():
            reason = why_invalid(ResourceType.TOPIC, name, value)
            if reason is not None:
                raise _Refused(ErrorCode.invalid_config, reason)

    def _in_sync(self, topic: str, assignments: Assignments) -> Assignments:
        """The first ISR of each new partition."""
        return {index: self._active(topic, index, replicas) for index, replicas in assignments.items()}

    def _active(self, topic: str, index: int, replicas: Sequence[int]) -> tuple[int, ...]:
        active = tuple(node for node in replicas if self._draft.image.is_active(node))
        if not active:
            reason = f"All brokers of partition {topic}-{index} are fenced or shutting down."
            raise _Refused(ErrorCode.invalid_replica_assignment, reason)
        return active

    def _delete(self, name: str) -> TopicResult:
        topic = self._draft.image.topics.get(name)
        if topic is None:
            return TopicResult(name, ErrorCode.unknown_topic_or_partition, "There is no such topic.")
        self._draft.write(RemoveTopicRecord(topic_id=topic.topic_id))
        return TopicResult(name, ErrorCode.none, None, topic.topic_id)

    def _reassign(self, where: TopicPartition, target: tuple[int, ...] | None) -> ElectionResult:
        partition = self._draft.image.partition(*where)
        if partition is None:
            return ElectionResult(*where, ErrorCode.unknown_topic_or_partition, "There is no such partition.")
        try:
            after = self._cancelled(partition) if target is None else self._retargeted(partition, target)
        except _Refused as refused:
            return ElectionResult(*where, refused.error, refused.reason)
        self._draft.write(self._draft.change_of(partition).reassigned(after))
        return ElectionResult(*where, ErrorCode.none)

    def _cancelled(self, partition: Partition) -> Partition:
        """The partition with the replicas that it had before its reassignment."""
        if not partition.is_reassigning:
            raise _Refused(ErrorCode.no_reassignment_in_progress, "No reassignment is under way.")
        replicas = tuple(node for node in partition.replicas if node not in partition.adding)
        if not any(node in partition.isr for node in replicas):
            raise _Refused(ErrorCode.invalid_replica_assignment, "None of the former replicas is in sync.")
        return replace(partition, replicas=replicas, adding=(), removing=())

    def _retargeted(self, partition: Partition, target: tuple[int, ...]) -> Partition:
        """The partition with the replicas of the target, and those that it has and will lose.

        What a reassignment under way has added stays until the new target is in sync: it may be all that is left.
        """
        self._check_replicas(target)
        removing = tuple(node for node in partition.replicas if node not in target)
        adding = tuple(node for node in target if node not in partition.replicas)
        return replace(partition, replicas=(*target, *removing), adding=adding, removing=removing)

    def _directory(self, node: int) -> uuid.UUID:
        """The broker's directory if it has one: where a replica goes that nobody has placed."""
        directories = self._draft.image.brokers[node].directories
        return directories[0] if len(directories) == 1 else NO_ID


def _placed(live: Sequence[int], first: int, factor: int) -> tuple[int, ...]:
    return tuple(live[(first + number) % len(live)] for number in range(factor))
