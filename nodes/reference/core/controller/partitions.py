"""Partitions: elections that are asked for, and changes of the ISR by leaders.

A designated election (KAFKA-20098) is refused for a partition that has a leader, and for a broker that has no replica
of it, is fenced, or shuts down. Sources: KIP-460 (ElectLeaders), KIP-497, KIP-704 and KIP-841 (AlterPartition).
"""

from __future__ import annotations

from itertools import islice

from kio.schema.errors import ErrorCode

from nodes.reference.core.controller.changes import Election
from nodes.reference.core.controller.draft import Draft
from nodes.reference.core.controller.messages import (
    AlterPartition,
    AlterPartitionResponse,
    ElectionResult,
    ElectLeaders,
    ElectLeadersResponse,
    IsrChange,
    PartitionResult,
    TopicPartition,
)
from nodes.reference.core.controller.settings import ELECTIONS_MAX
from nodes.reference.core.records.entities import NO_LEADER
from nodes.reference.core.records.image import Partition

Refusal = tuple[ErrorCode, str]


class Partitions:
    """The partitions of the active controller."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._unclean_ms = draft.now_ms + draft.settings.unclean_interval_ms

    @property
    def deadline_ms(self) -> int:
        """When partitions without a leader are looked at next."""
        return self._unclean_ms

    def expire(self) -> None:
        """Elect leaders uncleanly where topics allow it."""
        if self._draft.now_ms < self._unclean_ms:
            return
        self._unclean_ms = self._draft.now_ms + self._draft.settings.unclean_interval_ms
        for partition in self._draft.image.partitions():
            if not partition.has_leader and self._draft.allows_unclean(partition.topic):
                self._draft.write(self._draft.change_of(partition).record(Election.UNCLEAN))

    def elect(self, request: ElectLeaders) -> ElectLeadersResponse:
        """Handle requested elections; a request for all partitions reports those that had an election alone."""
        designated = request.designated or {}
        if (request.election is Election.DESIGNATED) != (request.designated is not None):
            return ElectLeadersResponse(ErrorCode.invalid_request)
        if request.partitions is None:
            everything = [(each.topic, each.index) for each in self._draft.image.partitions()]
            results = [self._elect(where, request.election, NO_LEADER) for where in everything]
            return ElectLeadersResponse(ErrorCode.none, tuple(each for each in results if _is_worth_reporting(each)))
        results = [
            self._elect(where, request.election, designated.get(where, NO_LEADER))
            for where in islice(request.partitions, ELECTIONS_MAX)
        ]
        if self._draft.settings.has("elections-beyond-limit-dropped"):
            results += [ElectionResult(*where, ErrorCode.none) for where in request.partitions[ELECTIONS_MAX:]]
        return ElectLeadersResponse(ErrorCode.none, tuple(results))

    def _elect(self, where: TopicPartition, election: Election, designated: int) -> ElectionResult:
        partition = self._draft.image.partition(*where)
        if partition is None:
            return ElectionResult(*where, ErrorCode.unknown_topic_or_partition, "There is no such partition.")
        refusal = self._refusal(partition, election, designated)
        if refusal is not None:
            return ElectionResult(*where, *refusal)
        isr = self._isr_without_old_leader(partition, election)
        record = self._draft.change_of(partition).record(election, isr, designated)
        self._draft.write(record)
        elected = self._draft.image.partition(*where)
        assert elected is not None, "an election removes no partition"
        if election is Election.PREFERRED and elected.leader != partition.replicas[0]:
            reason = "The preferred leader was not available."
            return ElectionResult(*where, ErrorCode.preferred_leader_not_available, reason)
        if not elected.has_leader:
            return ElectionResult(*where, ErrorCode.eligible_leaders_not_available, "No replica is live.")
        return ElectionResult(*where, ErrorCode.none)

    def _refusal(self, partition: Partition, election: Election, designated: int) -> Refusal | None:
        """Why there is no election; None if there is one."""
        settings = self._draft.settings
        if election is Election.PREFERRED:
            is_preferred = partition.leader == partition.replicas[0]
            return (ErrorCode.election_not_needed, "The preferred replica leads.") if is_preferred else None
        may_be_online = election is Election.DESIGNATED and settings.has("designates-online-partitions")
        if partition.has_leader and not may_be_online:
            return ErrorCode.election_not_needed, f"Broker {partition.leader} leads the partition."
        if election is not Election.DESIGNATED:
            return None
        if designated not in partition.replicas and not settings.has("designates-outsiders"):
            return ErrorCode.invalid_request, f"Broker {designated} has no replica of the partition."
        if not self._draft.image.is_active(designated) and not settings.has("designates-fenced-brokers"):
            return ErrorCode.eligible_leaders_not_available, f"Broker {designated} is fenced or unknown."
        return None

    def _isr_without_old_leader(self, partition: Partition, election: Election) -> tuple[int, ...] | None:
        """KIP-279's alternative 2 for clean elections; None if the ISR stays."""
        preferred = partition.replicas[0]
        changes_leader = preferred in partition.isr and self._draft.image.is_active(preferred)
        if election is not Election.PREFERRED or not self._draft.settings.pushes_out_old_leader or not changes_leader:
            return None
        return tuple(node for node in partition.isr if node != partition.leader)

    def alter(self, request: AlterPartition) -> AlterPartitionResponse:
        """Handle changes of ISRs by a leader."""
        broker = self._draft.image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return AlterPartitionResponse(ErrorCode.stale_broker_epoch)
        results = tuple(self._alter(request.broker_id, change) for change in request.changes)
        return AlterPartitionResponse(ErrorCode.none, results)

    def _alter(self, leader: int, change: IsrChange) -> PartitionResult:
        topic = self._draft.image.topic(change.topic_id)
        partition = topic.partitions.get(change.index) if topic else None
        if topic is None or partition is None:
            error = ErrorCode.unknown_topic_or_partition if topic else ErrorCode.unknown_topic_id
            return PartitionResult(change.topic_id, change.index, error)
        error = self._isr_error(leader, partition, change)
        if error is not ErrorCode.none:
            return PartitionResult(change.topic_id, change.index, error)
        isr = tuple(node for node, _ in change.isr)
        record = self._draft.change_of(partition).record(isr=isr, has_recovered=change.has_recovered)
        self._draft.write(record)
        now = self._draft.image.topics[topic.name].partitions[change.index]
        # The end of a reassignment may remove the leader that asked.
        error = ErrorCode.none if now.leader == leader else ErrorCode.new_leader_elected
        epochs = now.leader_epoch, now.partition_epoch
        return PartitionResult(change.topic_id, change.index, error, now.leader, *epochs, now.isr, now.is_recovering)

    def _isr_error(self, leader: int, partition: Partition, change: IsrChange) -> ErrorCode:
        isr = [node for node, _ in change.isr]
        accepts_old = self._draft.settings.has("isr-change-of-old-epoch-accepted")
        if change.leader_epoch > partition.leader_epoch or change.partition_epoch > partition.partition_epoch:
            return ErrorCode.not_controller
        if change.leader_epoch < partition.leader_epoch and not accepts_old:
            return ErrorCode.fenced_leader_epoch
        if leader != partition.leader and not accepts_old:
            return ErrorCode.invalid_request
        if change.partition_epoch < partition.partition_epoch and not accepts_old:
            return ErrorCode.invalid_update_version
        if leader not in isr or not set(isr) <= set(partition.replicas):
            return ErrorCode.invalid_request
        if not change.has_recovered and (len(isr) > 1 or not partition.is_recovering):
            return ErrorCode.invalid_request
        return ErrorCode.none if all(self._may_join(*each) for each in change.isr) else ErrorCode.ineligible_replica

    def _may_join(self, node: int, broker_epoch: int) -> bool:
        """KIP-841 and KIP-903: a broker in an ISR is live, and the one that the leader means."""
        if self._draft.settings.has("fenced-broker-joins-isr"):
            return True
        broker = self._draft.image.brokers.get(node)
        return broker is not None and broker.is_active and broker_epoch in (-1, broker.epoch)


def _is_worth_reporting(result: ElectionResult) -> bool:
    return result.error is not ErrorCode.election_not_needed
