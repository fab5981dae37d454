"""Who votes: the assignments in the log, and the voters and majorities of the last one.

A node acts on an assignment as soon as it is in its log, committed or not, and returns to the one before if the log is
truncated. Without a record the voters are those of the configuration, permanently if voter_changes is "none"; with
configured_voters "ignored" there are none. With "kip-853" they are those that the node was formatted with, and a voter
is a replica: a node with another directory does not vote.

    voters.ids              # (1, 2, 3)
    voters.majority         # 2

Contains the assignments and what follows from them alone. When a leader writes one is decided by reassignment and
roles.reassigning, or by roles.voter_changing. Sources: KIP-642, "Reassignment Algorithm"; KIP-853, "Voter changes".
"""

from __future__ import annotations

from dataclasses import dataclass

from nodes.reference.core.events import Assignment, Stored
from nodes.reference.core.messages import ReplicaKey, SnapshotId
from nodes.reference.core.records.control import assignment_with, assignments_in
from nodes.reference.core.records.log import Log
from nodes.reference.core.settings import NodeSettings

_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Written:
    """An assignment and the offset of its record; -1 for that of the configuration.

    The rest is what follows from the assignment for one node, which asks for it at each event: the other voters, the
    replicas of all and of the others, and whether the node is among them.
    """

    offset: int
    assignment: Assignment
    others: tuple[int, ...]
    keys: tuple[ReplicaKey, ...]
    other_keys: tuple[ReplicaKey, ...]
    is_listed: bool

    @staticmethod
    def of(offset: int, assignment: Assignment, own: ReplicaKey) -> Written:
        """The assignment for the node with this replica."""
        keys, me = assignment.keys, own.node_id
        others = tuple(voter for voter in assignment.current if voter != me)
        other_keys = tuple(key for key in keys if key.node_id != me)
        return Written(offset, assignment, others, keys, other_keys, own in keys)


class Voters:
    """The voters of one node's log."""

    def __init__(self, settings: NodeSettings, log: Log, stored: Stored, in_snapshot: Assignment | None = None) -> None:
        """in_snapshot: what the snapshot says that the log continues."""
        self._settings, self._log, self._own = settings, log, settings.key
        self._act_when_committed = settings.has("voters-change-when-committed")
        committed = stored.election.assignment
        applied_offset = stored.election.applied_offset
        configured = Written.of(_NOWHERE, _configured(settings), self._own)
        stored_last = None if committed is None else Written.of(applied_offset - 1, committed, self._own)
        self._written = [stored_last or configured]
        self._applied_offset = applied_offset  # all assignments below are known to be committed
        self._is_demoted = False
        self._former_end = 0  # the highest end that the log had since the start of the node
        if settings.changes_voters:
            if log.start.end_offset > applied_offset:
                self.loaded(log.start, in_snapshot)
            self.appended(log.read_from(self._applied_offset))

    def appended(self, data: bytes) -> None:
        """These batches were appended to the log."""
        if not self._settings.changes_voters:
            return
        found = [Written.of(offset, assignment, self._own) for offset, assignment in assignments_in(data)]
        if self._settings.has("voters-below-former-end-ignored"):
            found = [each for each in found if each.offset >= self._former_end]
            self._former_end = max(self._former_end, self._log.end_offset)
        self._written += found
        self._is_demoted = self._is_demoted and not found

    def loaded(self, snapshot_id: SnapshotId, assignment: Assignment | None) -> None:
        """The log begins behind this snapshot now, which says this; without an assignment no record has named any."""
        self._applied_offset = snapshot_id.end_offset
        if assignment is not None:
            self._written = [Written.of(snapshot_id.end_offset - 1, assignment, self._own)]
            self._is_demoted = False

    def named_below(self, offset: int) -> Assignment | None:
        """The last assignment that a record below offset made; None if none did."""
        below = (each for each in reversed(self._written) if each.offset < offset)
        last = next(below, self._written[0])
        return None if last.offset == _NOWHERE else last.assignment

    def truncated(self) -> None:
        """The log was truncated: return to the assignment that is the last one now."""
        if not self._settings.has("voters-kept-after-truncation"):
            kept = [each for each in self._written if each.offset < self._log.end_offset]
            self._written = kept or self._written[:1]

    def demote(self) -> None:
        """The leader says that this node no longer votes; its own log does not say so yet (KIP-642, NOT_FOLLOWER)."""
        self._is_demoted = True

    @property
    def last(self) -> Written:
        """The last assignment in the log."""
        return self._written[-1]

    @property
    def is_configured(self) -> bool:
        """Whether neither the log nor the disk says who votes, so that only the configuration does."""
        return self.last.offset == _NOWHERE

    @property
    def target_since(self) -> int:
        """The offset of the record that set the target of the last assignment."""
        target, since = self.last.assignment.target, self.last.offset
        for each in reversed(self._written):
            if each.assignment.target != target:
                break
            since = each.offset
        return since

    @property
    def effective(self) -> Written:
        """The assignment to act on: the last one, or with a mutant the last one that is committed."""
        return self.committed if self._act_when_committed else self._written[-1]

    @property
    def committed(self) -> Written:
        """The last assignment that is committed as far as this node knows."""
        known = max(self._log.high_watermark, self._applied_offset)
        return next((each for each in reversed(self._written) if each.offset < known), self._written[0])

    @property
    def is_committed(self) -> bool:
        """Whether the last assignment is committed."""
        return self.last.offset < self._log.high_watermark

    def may_change(self, high_watermark: int) -> bool:
        """Whether a leader with this high watermark of its epoch, -1 if it has none yet, may write other voters.

        An earlier leader may have appended a change that a majority without this one's knowledge could still commit,
        so a record of the leader's own epoch must be committed, and so must the assignment before (Ongaro, raft-dev,
        July 2015; KIP-853, "Add voter").
        """
        has_own_record = high_watermark >= 0 or self._settings.has("voters-changed-before-own-record")
        return has_own_record and self.is_committed

    @property
    def ids(self) -> tuple[int, ...]:
        """The voters, ordered by id."""
        return self.effective.assignment.current

    @property
    def other_keys(self) -> tuple[ReplicaKey, ...]:
        """The replicas of the other voters."""
        return self.effective.other_keys

    def key_of(self, node: int) -> ReplicaKey:
        """The replica with which a node votes; one without a directory if it does not vote."""
        return next((key for key in self.effective.keys if key.node_id == node), ReplicaKey(node))

    @property
    def others(self) -> tuple[int, ...]:
        """The other voters."""
        return self.effective.others

    @property
    def is_listed(self) -> bool:
        """Whether this node is among the voters of its log."""
        return self.effective.is_listed

    @property
    def is_voter(self) -> bool:
        """Whether this node votes."""
        return self.is_listed and not self._is_demoted

    @property
    def may_campaign(self) -> bool:
        """Whether this node starts elections.

        A voter that a record removes does so until it knows that the record is committed. It may be the only voter with
        that record, and then none of the others can win its vote (Raft's thesis, 4.2.2; KIP-642 leaves it open).
        """
        return self.is_voter or self._is_being_removed or self._settings.has("observer-campaigns")

    @property
    def _is_being_removed(self) -> bool:
        is_needed = self._settings.changes_voters and self._settings.removed_voters_campaign
        return is_needed and not self._is_demoted and self.committed.is_listed

    @property
    def majority(self) -> int:
        """How many voters are a majority."""
        half = len(self.ids) // 2
        return half if self._settings.has("half-is-a-majority") else half + 1

    def removal_of(self, node: int) -> int | None:
        """The offset of the record that removed a node from the voters; None if it votes, or is not known to have."""
        without = _NOWHERE
        for each in reversed(self._written):
            if node in each.assignment.current:
                return None if without == _NOWHERE else without
            without = each.offset
        return None


def _configured(settings: NodeSettings) -> Assignment:
    """The voters without a record."""
    if settings.has_directories:
        return assignment_with(settings.initial_voters)
    return Assignment(() if settings.configured_voters == "ignored" else settings.voters)
