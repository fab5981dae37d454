"""Votes: who gets ours, what becomes of those we ask for, and when an election begins or ends.

What may live here: Vote, BeginQuorumEpoch and EndQuorumEpoch as they are answered and received, and the timers of
every state but the leader's. Sources: KIP-595 (Vote), KIP-996 (pre-votes), Kafka's
KafkaRaftClient where they are silent.

One rule is ours: where clients read under a lease (read_mode=lease), a voter that fetched from a leader gives nobody
a standard vote for a fetch timeout, even if it meanwhile learned of a higher epoch. KIP-996 alone cannot carry a lease:
a candidate left over from an earlier election raises followers' epoch, and they may then vote against a leader
whose lease still runs. See leadership's docstring.
"""

from __future__ import annotations

import dataclasses

from kio.schema.errors import ErrorCode

from harness.model.quorum_states import Cause
from nodes.reference.core.context import Context
from nodes.reference.core.messages import (
    NO_NODE,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochResponse,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from nodes.reference.core.roles.log_format import epoch_election
from nodes.reference.core.roles.state_machine import Quorum
from nodes.reference.core.roles.states import Candidate, Follower, Prospective, Resigned, Unattached, VoteSeeker

_BACKOFF_BASE_MS = 100
_WITHOUT_EPOCH = frozenset(
    {ErrorCode.unsupported_version, ErrorCode.inconsistent_cluster_id, ErrorCode.invalid_request}
)
"""Errors whose response says nothing of epochs."""


class Elections:
    """The part of a node that elects and is elected."""

    def __init__(self, context: Context, quorum: Quorum) -> None:
        self._context, self._settings, self._quorum = context, context.settings, quorum

    def answer_vote(self, request: VoteRequest) -> VoteResponse:
        """Grant or reject; a standard vote that is granted is on its way to the disk before the answer."""
        error = self._vote_error(request)
        if error is not ErrorCode.none:
            return self._vote_response(error, False)
        if request.replica_epoch > self._quorum.epoch:
            self._quorum.move(Cause.HIGHER_EPOCH, request.replica_epoch)
        granted = self._grants(request)
        state = self._quorum.state
        if granted and not request.pre_vote and state.voted_id is None:
            self._quorum.move(Cause.VOTE_GRANTED, self._quorum.epoch, voted_id=request.replica_id)
        verdict = "granted" if granted else "rejected"
        self._context.note(f"Vote request {request} with epoch {request.replica_epoch} is {verdict}")
        return self._vote_response(ErrorCode.none, granted)

    def answer_begin(self, request: BeginQuorumEpochRequest) -> EpochResponse:
        """Follow the new leader."""
        error = self._epoch_error(request.cluster_id, request.leader_id, request.epoch)
        if error is ErrorCode.none:
            self.learn(request.leader_id, request.epoch)
        return self._epoch_response(error)

    def answer_end(self, request: EndQuorumEpochRequest) -> EpochResponse:
        """The leader resigns: free of any promise to it, wait as long as our place among its successors asks."""
        error = self._epoch_error(request.cluster_id, request.leader_id, request.epoch)
        if error is not ErrorCode.none:
            return self._epoch_response(error)
        self.learn(request.leader_id, request.epoch)
        state = self._quorum.state
        if isinstance(state, Follower) and state.leader_id == request.leader_id:
            self._quorum.promised_until_ms = self._context.now_ms
            deadline_ms = self._context.now_ms + self._succession_delay_ms(request.successors)
            self._quorum.update(dataclasses.replace(state, deadline_ms=deadline_ms))
        return self._epoch_response(ErrorCode.none)

    def learn(self, leader_id: int, epoch: int) -> None:
        """What any message teaches: an epoch higher than ours, or its leader where we knew none."""
        state = self._quorum.state
        known, leads_us = leader_id != NO_NODE, leader_id == self._settings.node_id
        if epoch < state.epoch or (leads_us and epoch == state.epoch):
            return
        if epoch > state.epoch:
            cause = Cause.LEADER_DISCOVERED if known and not leads_us else Cause.HIGHER_EPOCH
            self._quorum.move(cause, epoch, leader_id=leader_id if cause is Cause.LEADER_DISCOVERED else None)
        elif known and state.leader_id is None:
            self._quorum.move(Cause.LEADER_DISCOVERED, epoch, leader_id=leader_id)
        elif known and state.leader_id == leader_id and isinstance(state, Prospective):
            # KIP-996: a Prospective follows its leader again once it hears from it (BeginQuorumEpoch).
            self._quorum.move(Cause.LEADER_DISCOVERED, epoch, leader_id=leader_id)

    def vote_answered(self, voter: int, response: VoteResponse) -> None:
        """Count a vote, unless it belongs to an election that is over."""
        if response.error is ErrorCode.unsupported_version:
            self.pre_vote_unsupported()
        late = self._settings.mutant == "pre-vote-counted-as-vote" and isinstance(self._quorum.state, Candidate)
        if self.superseded(response) and not late:
            return
        state = self._quorum.state
        if response.error is ErrorCode.none and isinstance(state, VoteSeeker):
            if response.granted:
                self._quorum.update(dataclasses.replace(state, granted=state.granted | {voter}))
            else:
                self._quorum.update(dataclasses.replace(state, rejected=state.rejected | {voter}))
            self.count_votes()

    def superseded(self, response: VoteResponse | EpochResponse | FetchResponse) -> bool:
        """Take in what a response says of epoch and leader; true where it is of no further use."""
        if response.error in _WITHOUT_EPOCH:
            return True
        if response.epoch > self._quorum.epoch or self._quorum.state.leader_id is None:
            self.learn(response.leader_id, response.epoch)
        return response.epoch < self._quorum.epoch or response.error is ErrorCode.unknown_leader_epoch

    def pre_vote_unsupported(self) -> None:
        """A voter of an older release: ask for standard votes at once, as before KIP-996."""
        if isinstance(self._quorum.state, Prospective) and self._settings.mutant != "pre-vote-without-fallback":
            self._context.note(
                f"Prospective received unsupported version error in vote response in epoch {self._quorum.epoch}, "
                "transitioning to Candidate state immediately since at least one voter doesn't support PreVote."
            )
            self._quorum.move(Cause.PRE_VOTE_UNSUPPORTED, self._quorum.epoch + 1)
            self.count_votes()

    def count_votes(self) -> None:
        """See whether the election under way is decided."""
        state, majority = self._quorum.state, self._settings.majority
        if not isinstance(state, VoteSeeker):
            return
        if len(state.granted) >= majority:
            self._win(state)
        elif len(self._settings.voters) - len(state.rejected) < majority:
            self._lose(state)

    def expire(self) -> bool:
        """Act on the state's deadline if it has passed; whether it had."""
        state = self._quorum.state
        if self._context.now_ms < state.deadline_ms:
            return False
        match state:
            case Follower():
                self._note_fetch_timeout()
                self._begin_election(Cause.FETCH_TIMEOUT)
            case Unattached():
                self._begin_election(Cause.ELECTION_TIMEOUT)
            case Prospective():
                self._context.note(
                    "Election timed out before receiving sufficient vote responses to become candidate. "
                    f"Current epoch election state: {epoch_election(state, self._settings)}"
                )
                self._end_pre_votes(Cause.ELECTION_TIMEOUT, Cause.ELECTION_TIMEOUT_LEADER_KNOWN)
            case Candidate():
                self._expire_candidacy(state)
            case Resigned():
                self._begin_election(Cause.ELECTION_TIMEOUT)
        return True

    def _note_fetch_timeout(self) -> None:
        if self._settings.is_voter:
            new, old = (
                "Transitioning to Prospective state due to fetch timeout",
                "Become candidate due to fetch timeout",
            )
            self._context.note(new if self._settings.pre_vote else old)

    def _begin_election(self, cause: Cause) -> None:
        row = self._quorum.table.target(self._quorum.state.kind, cause)
        assert row is not None
        self._quorum.move(cause, self._quorum.epoch + (1 if row.epoch == "next" else 0))
        self.count_votes()

    def _win(self, state: VoteSeeker) -> None:
        if isinstance(state, Prospective):
            self._quorum.move(Cause.MAJORITY_OF_PRE_VOTES, state.epoch + 1)
            self.count_votes()
        else:
            self._quorum.move(Cause.MAJORITY_OF_VOTES, state.epoch)

    def _lose(self, state: VoteSeeker) -> None:
        if isinstance(state, Prospective):
            self._context.note(
                "Insufficient remaining votes to become candidate. "
                f"Current epoch election state is {epoch_election(state, self._settings)}."
            )
            self._end_pre_votes(Cause.ELECTION_LOST, Cause.ELECTION_LOST_LEADER_KNOWN)
        elif not self._settings.pre_vote and not state.is_backing_off:
            self._back_off(state)

    def _end_pre_votes(self, leader_unknown: Cause, leader_known: Cause) -> None:
        known = self._quorum.state.leader_id is not None
        self._quorum.move(leader_known if known else leader_unknown, self._quorum.epoch)

    def _expire_candidacy(self, state: Candidate) -> None:
        """KIP-996: back to Prospective, a lost election waited out (KAFKA-18345). KIP-595: back off, then once more."""
        if self._settings.pre_vote:
            self._context.note("Election was not granted, transitioning to prospective")
            lost = len(self._settings.voters) - len(state.rejected) < self._settings.majority
            self._begin_election(Cause.ELECTION_LOST if lost else Cause.ELECTION_TIMEOUT)
        elif state.is_backing_off:
            self._context.note("Re-elect as candidate after election backoff has completed")
            self._begin_election(Cause.ELECTION_TIMEOUT)
        else:
            self._back_off(state)

    def _back_off(self, state: Candidate) -> None:
        rounds = 2 << min(20, state.retries - 1)
        backoff_ms = min(_BACKOFF_BASE_MS * self._context.draw(0, rounds), self._settings.election_backoff_max_ms)
        self._context.note(f"Election has timed out, backing off for {backoff_ms}ms before becoming a candidate again")
        deadline_ms = self._context.now_ms + backoff_ms
        self._quorum.update(dataclasses.replace(state, deadline_ms=deadline_ms, is_backing_off=True))

    def _grants(self, request: VoteRequest) -> bool:
        log, state = self._context.log, self._quorum.state
        is_up_to_date = (request.last_epoch, request.end_offset) >= (log.last_epoch, log.end_offset)
        if self._quorum.has_new_disk and request.end_offset > 0 and not self._settings.new_disk_votes:
            return False
        if request.pre_vote:
            return is_up_to_date and self._may_grant_pre_vote()
        if self._context.now_ms < self._quorum.promised_until_ms or not self._settings.is_voter:
            return False
        if not isinstance(state, Unattached | Prospective):
            return False
        if state.voted_id is not None:
            return state.voted_id == request.replica_id
        return state.leader_id is None and is_up_to_date

    def _may_grant_pre_vote(self) -> bool:
        """KIP-996: all but leaders and satisfied followers; grants are not binding."""
        match self._quorum.state:
            case Follower(has_fetched=has_fetched):
                return not (has_fetched and self._settings.follower_denies_pre_vote)
            case Unattached() | Prospective() | Candidate() | Resigned():
                return True
        return False

    def _vote_error(self, request: VoteRequest) -> ErrorCode:
        error = self._epoch_error(request.cluster_id, request.replica_id, request.replica_epoch)
        # The last record of a candidate is of an epoch before its own, since it raised its own; a prospective did not.
        last_epoch_max = request.replica_epoch if request.pre_vote else request.replica_epoch - 1
        is_sane = 0 <= request.last_epoch <= last_epoch_max and request.end_offset >= 0
        if error is ErrorCode.none and not is_sane:
            return ErrorCode.invalid_request
        if error is ErrorCode.none and request.voter_id not in (NO_NODE, self._settings.node_id):
            return ErrorCode.invalid_voter_key
        return error

    def _epoch_error(self, cluster_id: str | None, replica_id: int, epoch: int) -> ErrorCode:
        if cluster_id not in (None, self._settings.cluster_id):
            return ErrorCode.inconsistent_cluster_id
        if replica_id < 0:
            return ErrorCode.invalid_request
        return ErrorCode.fenced_leader_epoch if epoch < self._quorum.epoch else ErrorCode.none

    def _vote_response(self, error: ErrorCode, granted: bool) -> VoteResponse:
        state = self._quorum.state
        return VoteResponse(error, NO_NODE if state.leader_id is None else state.leader_id, state.epoch, granted)

    def _epoch_response(self, error: ErrorCode) -> EpochResponse:
        state = self._quorum.state
        return EpochResponse(error, NO_NODE if state.leader_id is None else state.leader_id, state.epoch)

    def _succession_delay_ms(self, successors: tuple[int, ...]) -> int:
        """KIP-595: the first successor at once, later ones exponentially later, everyone else last."""
        maximum_ms, me = self._settings.election_backoff_max_ms, self._settings.node_id
        position = successors.index(me) if me in successors else len(successors)
        if position == 0:
            return 0
        if position == len(successors):
            return maximum_ms
        return min(maximum_ms, (maximum_ms >> (len(successors) - 1)) << (position - 1))
