"""The state machine of a node: executes the transition tables of harness.model.quorum_states.

Contains the initial state and what each state starts with. Why to leave a state is decided by elections, following and
leadership.

A transition has a cause; the table gives its target state and its effect on the epoch. A transition outside the table
fails an assertion. State that must survive a crash is persisted before any message reveals it.
"""

from __future__ import annotations

import dataclasses
import uuid

from harness.model.quorum_states import KIP_595, KIP_996, OBSERVER, Cause, State, Transition, TransitionTable
from nodes.reference.core.context import Context
from nodes.reference.core.events import Election, Halt, PersistElection, StateChange
from nodes.reference.core.roles.states import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    QuorumState,
    Resigned,
    Unattached,
    VoteSeeker,
)
from nodes.reference.core.settings import NEVER_MS, NodeSettings


def table_of(settings: NodeSettings) -> TransitionTable:
    """The table that a voter executes; a switch or a mutant replaces one row."""
    if settings.leader_without_majority == "new-election":
        return _with_row(
            KIP_595, Transition(State.LEADER, Cause.CHECK_QUORUM, State.CANDIDATE, "next", "KIP-595's text")
        )
    if settings.pre_vote and settings.has("candidate-retries-in-its-epoch"):
        return _with_row(
            KIP_996, Transition(State.PROSPECTIVE, Cause.MAJORITY_OF_PRE_VOTES, State.CANDIDATE, "same or higher")
        )
    if settings.has("resigned-keeps-its-epoch"):
        return _with_row(KIP_996, Transition(State.RESIGNED, Cause.ELECTION_TIMEOUT, State.PROSPECTIVE, "same"))
    return KIP_996 if settings.pre_vote else KIP_595


def _with_row(table: TransitionTable, row: Transition) -> TransitionTable:
    """The table with this row in place of the one with the same source and cause."""
    kept = tuple(each for each in table.rows if (each.source, each.cause) != (row.source, row.cause))
    return TransitionTable(f"{table.name}, {row.source.value} → {row.target.value}", (*kept, row))


class Quorum:
    """The node's state, its epoch, leader and vote."""

    def __init__(self, context: Context, stored: Election) -> None:
        self._context, self._settings, self._voters = context, context.settings, context.voters
        self._table = table_of(self._settings)
        self._durable = stored
        # Until this time the node grants no vote and starts no election.
        self.promised_until_ms = self._promise_at_start(stored)
        # The node started with an empty disk, and has neither led nor caught up with a leader since.
        self.has_new_disk = stored.epoch == 0 and context.log.end_offset == 0
        self.state: QuorumState = self._initial(stored)
        self._enter(self.state, None)

    @property
    def epoch(self) -> int:
        """The current epoch; never decreases, not even over a restart."""
        return self.state.epoch

    @property
    def table(self) -> TransitionTable:
        """The table that the node executes now. A node that no longer votes first ends what it does as a voter."""
        is_observer = isinstance(self.state, Unattached | Follower) and not self._voters.may_campaign
        return OBSERVER if is_observer else self._table

    def move(self, cause: Cause, epoch: int, leader_id: int | None = None, voted_id: int | None = None) -> None:
        """Make the table's transition for this cause; leader_id and voted_id are those that the cause revealed."""
        self._enter(self._entered(self._target(cause, epoch), epoch, leader_id, voted_id), self.state)

    def resign(self, cause: Cause, successors: tuple[int, ...]) -> None:
        """Make the table's transition to Resigned; successors are sent in EndQuorumEpoch."""
        assert self._target(cause, self.epoch) is State.RESIGNED
        self._enter(self._resigned(self.epoch, self.state.voted_id, successors), self.state)

    def _target(self, cause: Cause, epoch: int) -> State:
        row = self.table.target(self.state.kind, cause)
        assert row is not None, f"{self.table.name} has no row for {self.state.kind.value}: {cause.value}"
        assert row.admits(self.epoch, epoch), f"{self.table.name}: {row} does not admit {self.epoch} -> {epoch}"
        return row.target

    def update(self, state: QuorumState) -> None:
        """Replace the state by one of the same kind and epoch whose durable fields are the same."""
        assert (state.kind, state.epoch) == (self.state.kind, self.state.epoch)
        self.state = state

    def _enter(self, entered: QuorumState, left: QuorumState | None) -> None:
        durable = self._durable
        voted_directory_id = self._voted_directory_id(entered)
        election = dataclasses.replace(
            durable,
            epoch=entered.epoch,
            leader_id=entered.leader_id,
            voted_id=entered.voted_id,
            voted_directory_id=voted_directory_id,
        )
        if election != self._durable or left is None:
            self._context.emit(self._change(entered, left, is_completed=False))
            if entered.leader_id is not None or not self._settings.has("election-not-persisted"):
                self._context.emit(PersistElection(election))
            self._durable = election
        self.state = entered
        self._context.emit(self._change(entered, left, is_completed=True))

    def _voted_directory_id(self, entered: QuorumState) -> uuid.UUID | None:
        """Of the replica with the vote: it is the one that the log had when the vote was granted."""
        durable, settings, voted_id = self._durable, self._settings, entered.voted_id
        if (entered.epoch, voted_id) == (durable.epoch, durable.voted_id):
            return durable.voted_directory_id
        if voted_id is None:
            return None
        key = settings.key if voted_id == settings.node_id else self._voters.key_of(voted_id)
        return key.directory_id

    def persist_voters(self) -> None:
        """Persist the latest committed assignment, once it is known to be committed (KIP-642).

        With KIP-853 the log alone says who votes.
        """
        if not self._settings.reassigns_voters:
            return
        committed = self._voters.committed
        if committed.offset >= self._durable.applied_offset:
            durable = dataclasses.replace(
                self._durable, applied_offset=committed.offset + 1, assignment=committed.assignment
            )
            self._context.emit(PersistElection(durable))
            self._durable = durable

    def _promise_at_start(self, stored: Election) -> int:
        """A restart forgets the promise, so it is assumed to have been made just before the crash."""
        promise_ms = min(self._settings.vote_promise_ms, self._settings.read_lease_ms)
        return self._context.now_ms + (promise_ms if stored.epoch > 0 else 0)

    def _change(self, entered: QuorumState, left: QuorumState | None, is_completed: bool) -> StateChange:
        high_watermark = self._context.log.high_watermark
        return StateChange(entered, left, is_completed, self._settings, self._voters.ids, high_watermark)

    def _initial(self, stored: Election) -> QuorumState:
        """The state a restarted node begins in: Kafka's QuorumState.initialize, except for observers.

        An observer is only ever Unattached or Follower (KIP-996, "Observers"), also if it was a voter in its last run.
        If it led the epoch, it starts Unattached in the next one: Kafka 4.3.1 ends there too, after it was Resigned for
        an election timeout. The next epoch ensures that nobody leads the old one twice. If it voted for itself, it
        keeps the vote and starts Unattached, where Kafka 4.3.1 ends with an IllegalArgumentException of CandidateState.
        """
        settings, log_epoch = self._settings, self._context.log.last_epoch
        voted_id = None if settings.has("vote-forgotten-on-restart") else stored.voted_id
        if stored.epoch < log_epoch:
            return self._unattached(log_epoch, None, None)
        if stored.leader_id == settings.node_id:
            if not self._voters.may_campaign:
                return self._unattached(stored.epoch + 1, None, None)
            if settings.has("leader-resumes-after-restart"):
                me, start_offset = settings.node_id, self._context.log.end_offset
                return Leader(stored.epoch, me, voted_id, start_offset, frozenset({me}))
            return self._resigned(stored.epoch, voted_id)
        if voted_id == settings.node_id and settings.has("own-vote-restored-before-leader"):
            if self._voters.is_voter:
                return self._candidate(stored.epoch, 1)
            self._context.emit(Halt(f"Local replica {settings.node_id} must be in the set of voters"))
        if stored.leader_id is not None and self._may_be_found(stored.leader_id):
            return self._follower(stored.epoch, stored.leader_id, voted_id)
        if voted_id == settings.node_id and self._voters.is_voter and stored.leader_id is None:
            if settings.starts_as_prospective and settings.pre_vote:
                return Unattached(stored.epoch, None, voted_id, self._context.now_ms, 0)  # and Prospective at once
            return self._candidate(stored.epoch, 1)
        # A leader outside the voters has no known endpoint, so the node must find the leader as Unattached.
        return self._unattached(stored.epoch, stored.leader_id, voted_id)

    def _may_be_found(self, leader_id: int) -> bool:
        """Whether a leader's address is known or can be: where voters change, by discovery (KIP-642)."""
        is_found = self._settings.changes_voters and not self._settings.has("unattached-ends-at-leaders-response")
        return is_found or leader_id in self._voters.others

    def _entered(self, target: State, epoch: int, leader_id: int | None, voted_id: int | None) -> QuorumState:
        """The state to enter. Leader and vote are kept within an epoch (KIP-996, "FollowerState changes")."""
        left = self.state
        keeps_vote = epoch == self.epoch or self._settings.has("vote-kept-in-next-epoch")
        voted_id = left.voted_id if voted_id is None and keeps_vote else voted_id
        match target:
            case State.UNATTACHED:
                return self._unattached(epoch, None, voted_id, left)
            case State.FOLLOWER:
                leader_id = left.leader_id if leader_id is None else leader_id
                assert leader_id is not None, "a follower has a leader"
                if self._settings.has("vote-forgotten-by-follower"):
                    voted_id = None
                return self._follower(epoch, leader_id, voted_id)
            case State.PROSPECTIVE:
                if self._settings.has("vote-forgotten-by-prospective"):
                    voted_id = None
                return self._prospective(epoch, left.leader_id, voted_id)
            case State.CANDIDATE:
                return self._candidate(epoch, left.retries + 1 if isinstance(left, VoteSeeker) else 1)
            case State.LEADER:
                assert isinstance(left, Candidate), "only a candidate is elected"
                self.has_new_disk = False
                return Leader(epoch, self._settings.node_id, voted_id, self._context.log.end_offset, left.granted)
            case State.RESIGNED:
                raise AssertionError("use resign() for a transition to Resigned")

    def _unattached(
        self, epoch: int, leader_id: int | None, voted_id: int | None, left: QuorumState | None = None
    ) -> Unattached:
        if not self._voters.may_campaign:
            return Unattached(epoch, leader_id, voted_id, NEVER_MS, NEVER_MS)
        if left is not None and self._keeps_timer(left, voted_id):
            timeout_ms = max(0, left.deadline_ms - self._context.now_ms)
        else:
            timeout_ms = self._context.draw_election_timeout_ms()
        timeout_ms += self._promise_delay_ms(timeout_ms)
        return Unattached(epoch, leader_id, voted_id, self._context.now_ms + timeout_ms, timeout_ms)

    def _keeps_timer(self, left: QuorumState, voted_id: int | None) -> bool:
        """Kafka's transitionToUnattached: the timer continues, unless the election was lost or a vote was granted."""
        if isinstance(left, Prospective):
            return not left.rejected and voted_id in (None, left.voted_id) and left.deadline_ms > self._context.now_ms
        return isinstance(left, Unattached | Candidate | Resigned) and voted_id in (None, left.voted_id)

    def _promise_delay_ms(self, timeout_ms: int) -> int:
        """What to add so that the node's own election does not break the promise; randomized against split votes."""
        missing_ms = self.promised_until_ms - self._context.now_ms - timeout_ms
        spread_ms = max(1, self._settings.election_timeout_ms)
        return missing_ms + self._context.draw(0, spread_ms) if missing_ms > 0 else 0

    def _follower(self, epoch: int, leader_id: int, voted_id: int | None) -> Follower:
        return Follower(epoch, leader_id, voted_id, self._context.now_ms + self._settings.fetch_timeout_ms)

    def _prospective(self, epoch: int, leader_id: int | None, voted_id: int | None) -> Prospective:
        timeout_ms = self._context.draw_election_timeout_ms()
        deadline_ms = self._context.now_ms + timeout_ms
        retries = self.state.retries if isinstance(self.state, VoteSeeker) else 0
        return Prospective(epoch, leader_id, voted_id, deadline_ms, timeout_ms, self._own_vote(), retries)

    def _own_vote(self) -> frozenset[int]:
        """Its vote for itself, which counts unless a record removes it from the voters."""
        me = self._settings.node_id
        return frozenset({me}) if self._voters.is_listed or not self._settings.changes_voters else frozenset()

    def _candidate(self, epoch: int, retries: int) -> Candidate:
        timeout_ms, me = self._context.draw_election_timeout_ms(), self._settings.node_id
        granted = frozenset() if self._settings.has("own-vote-not-counted") else self._own_vote()
        return Candidate(epoch, me, self._context.now_ms + timeout_ms, timeout_ms, retries, granted)

    def _resigned(self, epoch: int, voted_id: int | None, successors: tuple[int, ...] = ()) -> Resigned:
        timeout_ms, me = self._context.draw_election_timeout_ms(), self._settings.node_id
        unacknowledged = frozenset(self._voters.others)
        deadline_ms = self._context.now_ms + timeout_ms
        return Resigned(epoch, me, voted_id, deadline_ms, timeout_ms, unacknowledged, successors)
