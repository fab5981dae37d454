"""The in-sync replicas of a partition, as its leader sees them: what is committed, and what it has asked for.

    isr = InSync(assignment)
    proposal = isr.propose((1, 2, 3))   # to send to the controller; one at a time
    isr.ended(result)                   # what the controller decided, or
    isr.assigned(assignment)            # what the metadata says first

Until the controller has answered, either ISR may be the one that elects the next leader. So a record is committed once
all replicas of both have it: the maximal ISR (KIP-497, KIP-704).

Contains values and one proposal. Does not contain progress of replicas, or when to propose what.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.reference.core.partitions.messages import Assignment, IsrResult

WITHDRAWN: Final = frozenset({ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted})
"""Errors after which the proposal is known to have had no effect; another one may follow."""

FINAL: Final = frozenset(
    {
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
    }
)
"""Errors after which the leader waits for the metadata. After any other one it repeats its proposal."""


@dataclass(slots=True)
class InSync:
    """isr and partition_epoch are committed. proposed is the ISR that was asked for; None if nothing is.

    is_waiting: the controller refused the proposal, and the metadata will say why.
    """

    isr: tuple[int, ...]
    partition_epoch: int
    is_recovering: bool
    proposed: tuple[int, ...] | None = None
    is_waiting: bool = False

    @classmethod
    def of(cls, assignment: Assignment) -> InSync:
        """As the metadata has it."""
        return cls(assignment.isr, assignment.partition_epoch, assignment.is_recovering)

    @property
    def maximal(self) -> frozenset[int]:
        """The replicas that may be in the ISR."""
        return frozenset(self.isr) | frozenset(self.proposed or ())

    @property
    def is_pending(self) -> bool:
        """Whether a proposal is under way; a second one waits for its end."""
        return self.proposed is not None

    def propose(self, isr: tuple[int, ...]) -> None:
        """Ask for this ISR."""
        assert not self.is_pending, f"{isr} is proposed, {self.proposed} is pending"
        self.proposed = isr

    def ended(self, result: IsrResult, leader_epoch: int) -> bool:
        """Record the controller's decision on the proposal; returns whether to repeat it."""
        is_of_epoch = result.leader_epoch == leader_epoch
        if result.error is ErrorCode.none and is_of_epoch and result.partition_epoch >= self.partition_epoch:
            self._commit(result.isr, result.partition_epoch, result.is_recovering)
        if not self.is_pending:
            return False  # the metadata was faster
        if result.error in WITHDRAWN:
            self.proposed = None
            return False
        self.is_waiting = result.error in FINAL or result.error is ErrorCode.none
        return not self.is_waiting

    def assigned(self, assignment: Assignment) -> None:
        """The metadata has a later version: a proposal on an earlier one will be refused, or has been accepted."""
        if assignment.partition_epoch > self.partition_epoch:
            self._commit(assignment.isr, assignment.partition_epoch, assignment.is_recovering)

    def _commit(self, isr: tuple[int, ...], partition_epoch: int, is_recovering: bool) -> None:
        self.isr, self.partition_epoch, self.is_recovering = isr, partition_epoch, is_recovering
        self.proposed, self.is_waiting = None, False
