"""A broker's partitions: takes events and a time, changes logs, returns effects.

    event ─► handle ─► serving, fetching, the metadata ─► expire ─► propose, answer, send ─► effects

Dispatches events, begins and ends leadership and following, and batches the proposals to the controller. Contains no
protocol decisions.

What the shell must do:

* Pass assignments only once the metadata has the broker's own registration. An earlier one may say that it leads an
  epoch that it led before it was restarted.
* Pass Remove before the assignment of a topic that was deleted and created again: its partition epochs begin anew.
* Store `high_watermarks` now and then and at the end; read them back by `Logs.stored_high_watermark`.
* Connect a request's responses to the process that sent it. Request ids begin anew with each Broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from kio.schema.errors import ErrorCode

from nodes.reference.core.partitions.events import (
    Answered,
    Arrived,
    AskController,
    Assign,
    ControllerAnswered,
    Effect,
    Event,
    Failed,
    Registered,
    Remove,
    RequestId,
    StartAt,
    StoreHighWatermarks,
)
from nodes.reference.core.partitions.fetching import Fetching
from nodes.reference.core.partitions.following import Following
from nodes.reference.core.partitions.leading import Leading
from nodes.reference.core.partitions.log import ReplicaLog
from nodes.reference.core.partitions.messages import NO_NODE, Assignment, IsrRequest, IsrResponse, TopicPartition
from nodes.reference.core.partitions.replica import NEVER_MS, Context, Replica
from nodes.reference.core.partitions.serving import Role, Serving
from nodes.reference.core.partitions.settings import PartitionSettings


class Logs(Protocol):
    """Where partitions' logs and high watermarks are kept."""

    def open(self, partition: TopicPartition) -> ReplicaLog:
        """The log of a partition; an empty one if there is none yet."""

    def stored_high_watermark(self, partition: TopicPartition) -> int:
        """The high watermark that was stored last; 0 if none was."""


class Broker:
    """The partitions of one broker, from its start to its end."""

    def __init__(self, settings: PartitionSettings, logs: Logs, now_ms: int) -> None:
        self._settings, self._logs = settings, logs
        self._context = Context(settings, now_ms)
        self._replicas: dict[TopicPartition, Replica] = {}
        self._leading: dict[TopicPartition, Leading] = {}
        self._following: dict[TopicPartition, Following] = {}
        self._serving = Serving(self._context, self._role)
        self._fetching = Fetching(self._context, lambda: self._following)
        self._asked: dict[RequestId, tuple[Mapping[TopicPartition, Leading], int]] = {}  # with the request's deadline
        self._last_id = 0

    @property
    def replicas(self) -> Mapping[TopicPartition, Replica]:
        """The replicas, for reading."""
        return self._replicas

    @property
    def leading(self) -> Mapping[TopicPartition, Leading]:
        """The partitions that this broker leads, for reading."""
        return self._leading

    @property
    def following(self) -> Mapping[TopicPartition, Following]:
        """The partitions that this broker follows, for reading."""
        return self._following

    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        """What the shell stores every replica.high.watermark.checkpoint.interval.ms and when it stops."""
        return {partition: replica.high_watermark for partition, replica in self._replicas.items()}

    @property
    def deadline_ms(self) -> int:
        """When to pass Tick if there is no event before."""
        asked = (deadline_ms for _, deadline_ms in self._asked.values())
        terms = (each.deadline_ms for each in self._leading.values())
        return min(self._serving.deadline_ms, self._fetching.deadline_ms, *asked, *terms, NEVER_MS)

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; the caller carries out the returned effects in order."""
        self._context.now_ms = max(now_ms, self._context.now_ms)
        match event:
            case Registered(broker_epoch):
                self._context.broker_epoch = broker_epoch
            case Assign(assignments):
                self._context.changes += 1
                self._assign(assignments)
            case Remove(partitions):
                self._context.changes += 1
                for partition in partitions:
                    self._remove(partition)
            case StartAt(offsets):
                self._context.changes += 1
                for partition in offsets.keys() & self._replicas.keys():
                    self._replicas[partition].advance_start(offsets[partition])
            case Arrived():
                self._serving.handle(event)
            case Answered(peer, request_id, response):
                self._fetching.answered(peer, request_id, response)
            case Failed(peer, request_id):
                self._fetching.failed(peer, request_id)
            case ControllerAnswered(request_id, answer):
                self._controller_answered(request_id, answer)
        self._advance()
        return self._context.take_effects()

    def _advance(self) -> None:
        """Do what is due after any event."""
        for request_id, (_, deadline_ms) in list(self._asked.items()):
            if deadline_ms <= self._context.now_ms:
                self._controller_answered(request_id, None)
        self._fetching.expire()
        self._propose()
        self._serving.advance()
        self._fetching.send()

    def _role(self, partition: TopicPartition) -> Role | None:
        replica = self._replicas.get(partition)
        return None if replica is None else (replica, self._leading.get(partition))

    # Metadata.

    def _assign(self, assignments: tuple[Assignment, ...]) -> None:
        changes = [self._assign_one(assignment) for assignment in assignments]
        if any(changes) and self._settings.stores_high_watermark_at_leader_change:
            self._context.emit(StoreHighWatermarks(self.high_watermarks()))

    def _assign_one(self, assignment: Assignment) -> bool:
        """Take what the metadata says of a partition; returns whether its leader epoch changed."""
        partition, replica = assignment.partition, self._replicas.get(assignment.partition)
        if self._settings.node_id not in assignment.replicas:
            self._remove(partition)
            return False
        if replica is None:
            log, stored = self._logs.open(partition), self._logs.stored_high_watermark(partition)
            replica = self._replicas[partition] = Replica(self._context, assignment, log, stored)
        elif assignment.partition_epoch <= replica.assignment.partition_epoch:
            # A topic's config may have changed, which no epoch counts.
            replica.assignment = replace(
                replica.assignment, min_isr=assignment.min_isr, is_only_compacted=assignment.is_only_compacted
            )
            return False
        elif assignment.leader_epoch == replica.assignment.leader_epoch:
            replica.assignment = assignment
            if partition in self._leading:
                self._leading[partition].assigned(assignment)
            return False
        replica.assignment = assignment
        self._begin_epoch(replica)
        return True

    def _begin_epoch(self, replica: Replica) -> None:
        """A leader epoch begins: this broker leads, follows, or waits for a leader."""
        partition, assignment = replica.partition, replica.assignment
        self._leading.pop(partition, None)
        self._following.pop(partition, None)
        if assignment.leader == self._settings.node_id:
            self._leading[partition] = Leading(replica)
            self._context.note(
                f"Leader {partition} with leader epoch {assignment.leader_epoch} starts at offset "
                f"{replica.log.end_offset} with high watermark {replica.high_watermark}",
                "Partition",
            )
        elif assignment.leader != NO_NODE:
            self._following[partition] = Following(replica)

    def _remove(self, partition: TopicPartition) -> None:
        for roles in (self._leading, self._following, self._replicas):
            roles.pop(partition, None)

    # The controller.

    def _propose(self) -> None:
        """Send what leaders want of the controller, in one request."""
        proposals = {partition: leading.proposal() for partition, leading in self._leading.items()}
        wanted = {partition: each for partition, each in proposals.items() if each is not None}
        if not wanted:
            return
        self._last_id += 1
        deadline_ms = self._context.now_ms + self._settings.request_timeout_ms
        self._asked[self._last_id] = {partition: self._leading[partition] for partition in wanted}, deadline_ms
        self._context.emit(AskController(self._last_id, IsrRequest(tuple(wanted.values()))))

    def _controller_answered(self, request_id: RequestId, response: IsrResponse | None) -> None:
        """Pass the results on to the terms that asked; a term that has ended ignores its result."""
        if request_id not in self._asked:
            return
        terms, _ = self._asked.pop(request_id)
        is_answer = response is not None and response.error is ErrorCode.none
        results = {each.partition: each for each in response.results} if response is not None and is_answer else {}
        for partition, leading in terms.items():
            leading.proposal_ended(results.get(partition))
