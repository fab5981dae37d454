"""Elections: granting votes, counting votes, and starting and ending elections.

Contains the handlers of Vote, BeginQuorumEpoch and EndQuorumEpoch requests and responses, and the timeouts of every
state except Leader. Sources: KIP-595 (Vote), KIP-996 (pre-votes), and Kafka's KafkaRaftClient for what they leave open.

One rule is not Kafka's. With read_mode=lease, a voter that fetched from a leader grants no standard vote for one fetch
timeout, even if it learns of a higher epoch meanwhile. KIP-996 alone does not make a lease safe: a candidate left over
from an earlier election raises the followers' epoch, and they may then vote against a leader whose lease is still
valid. See the docstring of leadership.
"""

from __future__ import annotations

import dataclasses
import uuid

from kio.schema.errors import ErrorCode

from harness.model.quorum_states import Cause
from nodes.reference.core.context import Context
from nodes.reference.core.messages import (
    NO_NODE,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochResponse,
    FetchResponse,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from nodes.reference.core.roles.log_format import epoch_election
from nodes.reference.core.roles.state_machine import Quorum
from nodes.reference.core.roles.states import Candidate, Follower, Leader, Prospective, Resigned, Unattached, VoteSeeker

_BACKOFF_BASE_MS = 100
_WITHOUT_EPOCH = frozenset(
    {ErrorCode.unsupported_version, ErrorCode.inconsistent_cluster_id, ErrorCode.invalid_request}
)
"""Errors whose response carries no epoch."""

_OfEpoch = VoteResponse | EpochResponse | FetchResponse | FetchSnapshotResponse


class Elections:
    """The election part of a node."""

    def __init__(self, context: Context, quorum: Quorum) -> None:
        self._context, self._settings, self._quorum = context, context.settings, quorum
        self._voters = context.voters

    def request(self, state: VoteSeeker, peer: int) -> VoteRequest:
        """The request for a voter's vote or pre-vote."""
        log, settings = self._context.log, self._settings
        return VoteRequest(
            settings.cluster_id,
            peer,
            settings.node_id,
            state.epoch,
            log.last_epoch,
            log.end_offset,
            isinstance(state, Prospective),
            settings.key.directory_id,
            self._voters.key_of(peer).directory_id,
        )

    def handle_vote(self, request: VoteRequest) -> VoteResponse:
        """Grant or reject a vote. A granted standard vote is persisted before the response."""
        error = self._vote_error(request)
        if error is not ErrorCode.none:
            return self._vote_response(error, False)
        if request.replica_epoch > self._quorum.epoch:
            if self._ignores(request):
                self._note_vote(request, False)
                return VoteResponse(ErrorCode.none, NO_NODE, request.replica_epoch, False)
            self._quorum.move(Cause.HIGHER_EPOCH, request.replica_epoch)
        is_rejected = self._is_of_non_voter(request)
        if is_rejected and self._settings.non_voter_votes == "campaign":
            self._campaign_at_once()
        granted = not is_rejected and self._grants(request)
        state = self._quorum.state
        if granted and not request.pre_vote and state.voted_id != request.replica_id:
            self._quorum.move(Cause.VOTE_GRANTED, self._quorum.epoch, voted_id=request.replica_id)
        self._note_vote(request, granted)
        return self._vote_response(ErrorCode.none, granted)

    def _is_of_non_voter(self, request: VoteRequest) -> bool:
        """KIP-642: whether a node asks that does not vote, as far as this voter's log says."""
        settings = self._settings
        is_checked = settings.changes_voters and settings.non_voter_votes != "grant"
        return is_checked and request.replica_id not in self._voters.ids

    def _campaign_at_once(self) -> None:
        """KIP-642: a voter that rejects the vote of a node that does not vote becomes a candidate."""
        state = self._quorum.state
        if isinstance(state, Unattached | Follower) and self._voters.may_campaign:
            self._quorum.update(dataclasses.replace(state, deadline_ms=self._context.now_ms))

    def _note_vote(self, request: VoteRequest, granted: bool) -> None:
        verdict = "granted" if granted else "rejected"
        self._context.note(f"Vote request {request} with epoch {request.replica_epoch} is {verdict}")

    def handle_begin_quorum_epoch(self, request: BeginQuorumEpochRequest) -> EpochResponse:
        """Handle BeginQuorumEpoch: follow the new leader."""
        error = self._epoch_error(request.cluster_id, request.leader_id, request.epoch)
        if error is ErrorCode.none and self._is_for_another_directory(request.voter_directory_id):
            error = ErrorCode.invalid_voter_key
        if error is ErrorCode.none:
            self.learn(request.leader_id, request.epoch)
        return self._epoch_response(error)

    def handle_end_quorum_epoch(self, request: EndQuorumEpochRequest) -> EpochResponse:
        """Handle EndQuorumEpoch: drop the vote promise and wait for the delay of this node's rank as a successor."""
        error = self._epoch_error(request.cluster_id, request.leader_id, request.epoch)
        if error is not ErrorCode.none:
            return self._epoch_response(error)
        self.learn(request.leader_id, request.epoch)
        state = self._quorum.state
        if isinstance(state, Follower) and state.leader_id == request.leader_id:
            self._quorum.promised_until_ms = self._context.now_ms
            deadline_ms = self._context.now_ms + self._succession_delay_ms(request.successors)
            has_fetched = state.has_fetched and not self._settings.end_quorum_grants
            self._quorum.update(dataclasses.replace(state, deadline_ms=deadline_ms, has_fetched=has_fetched))
        return self._epoch_response(ErrorCode.none)

    def learn(self, leader_id: int, epoch: int) -> None:
        """Adopt a higher epoch, and follow the leader that a message names if it is another node that may lead."""
        can_follow = self._may_lead(leader_id)
        if epoch > self._quorum.epoch:
            if can_follow:
                self._quorum.move(Cause.LEADER_DISCOVERED, epoch, leader_id=leader_id)
            else:
                self._quorum.move(Cause.HIGHER_EPOCH, epoch)
        elif epoch == self._quorum.epoch and can_follow and self._is_news(leader_id):
            self._quorum.move(Cause.LEADER_DISCOVERED, epoch, leader_id=leader_id)

    def _may_lead(self, node: int) -> bool:
        """Whether another node may lead, as far as this one knows: where voters change, its log may be behind."""
        if self._settings.changes_voters:
            return node not in (NO_NODE, self._settings.node_id)
        return node in self._voters.others

    def _is_news(self, leader_id: int) -> bool:
        """Whether the name of this epoch's leader changes the state.

        KIP-996: a Prospective follows again on any message that names the leader of its epoch. Kafka 4.3.1 does so only
        if the Prospective knew no leader.
        """
        state = self._quorum.state
        if state.leader_id is None:
            return True
        is_prospective = isinstance(state, Prospective) and state.leader_id == leader_id
        return is_prospective and self._settings.prospective_follows != "unknown-leader"

    def handle_vote_response(self, voter: int, response: VoteResponse) -> None:
        """Count a vote, unless its election is over."""
        if response.error is ErrorCode.unsupported_version:
            self.pre_vote_unsupported()
        late = self._settings.has("pre-vote-counted-as-vote") and isinstance(self._quorum.state, Candidate)
        if self.learn_from_response(response) and not late:
            return
        state = self._quorum.state
        # A node with another directory than the voter's cannot grant its vote (KIP-853).
        is_decided = response.error in (ErrorCode.none, ErrorCode.invalid_voter_key)
        if is_decided and isinstance(state, VoteSeeker):
            if response.granted or self._settings.has("rejected-vote-counted"):
                self._quorum.update(dataclasses.replace(state, granted=state.granted | {voter}))
            else:
                self._quorum.update(dataclasses.replace(state, rejected=state.rejected | {voter}))
            self.count_votes()

    def learn_from_response(self, response: _OfEpoch) -> bool:
        """Learn the epoch and the leader that a response names; returns whether the rest of it is obsolete."""
        if response.error in _WITHOUT_EPOCH:
            return True
        if not self._is_grant_of_known_leader(response) and self._may_follow_on(response):
            self.learn(response.leader_id, response.epoch)
        return response.epoch < self._quorum.epoch or response.error is ErrorCode.unknown_leader_epoch

    def _is_grant_of_known_leader(self, response: _OfEpoch) -> bool:
        """Whether a granted vote names the leader that this node knows already. Such a vote is counted.

        A follower that has not fetched grants pre-votes, and its response names the leader. If a Prospective followed
        on that, no voter that knew a failed leader could ever replace it.
        """
        is_grant = isinstance(response, VoteResponse) and response.granted
        return is_grant and response.epoch == self._quorum.epoch and self._quorum.state.leader_id is not None

    def _may_follow_on(self, response: _OfEpoch) -> bool:
        """KIP-996's rejected first solution: in the same epoch, no other node's response returns it to the leader."""
        is_fetched = isinstance(response, FetchResponse | FetchSnapshotResponse) and response.error is ErrorCode.none
        is_later = response.epoch > self._quorum.epoch
        return is_later or is_fetched or self._settings.prospective_follows != "begin-quorum"

    def pre_vote_unsupported(self) -> None:
        """A voter has an older release: request standard votes at once, as before KIP-996."""
        if isinstance(self._quorum.state, Prospective) and not self._settings.has("pre-vote-without-fallback"):
            self._context.note(
                f"Prospective received unsupported version error in vote response in epoch {self._quorum.epoch}, "
                "transitioning to Candidate state immediately since at least one voter doesn't support PreVote."
            )
            self._quorum.move(Cause.PRE_VOTE_UNSUPPORTED, self._quorum.epoch + 1)
            self.count_votes()

    def count_votes(self) -> None:
        """End the current election if it is decided."""
        state, majority = self._quorum.state, self._voters.majority
        if not isinstance(state, VoteSeeker):
            return
        if len(state.granted) >= majority:
            self._win(state)
        elif len(self._voters.ids) - len(state.rejected) < majority:
            self._lose(state)

    def expire(self) -> bool:
        """Handle the state's timeout if it has expired; returns whether it had."""
        state = self._quorum.state
        if self._context.now_ms < state.deadline_ms:
            return False
        if isinstance(state, Follower | Unattached | Resigned) and self._has_to_discover():
            deadline_ms = self._context.now_ms + self._context.draw_election_timeout_ms()
            self._quorum.update(dataclasses.replace(state, deadline_ms=deadline_ms))
            return True
        match state:
            case Follower() if self._settings.has("fetch-timeout-ignored"):
                deadline_ms = self._context.now_ms + self._settings.fetch_timeout_ms
                self._quorum.update(dataclasses.replace(state, deadline_ms=deadline_ms))
            case Follower():
                self._note_fetch_timeout()
                self.begin_election(Cause.FETCH_TIMEOUT)
            case Unattached():
                self.begin_election(Cause.ELECTION_TIMEOUT)
            case Prospective():
                self._context.note(
                    "Election timed out before receiving sufficient vote responses to become candidate. "
                    f"Current epoch election state: {epoch_election(state, self._voters.ids)}"
                )
                self._end_pre_votes(Cause.ELECTION_TIMEOUT, Cause.ELECTION_TIMEOUT_LEADER_KNOWN)
            case Candidate():
                self._expire_candidacy(state)
            case Resigned():
                self.begin_election(Cause.ELECTION_TIMEOUT)
        return True

    def _has_to_discover(self) -> bool:
        """Whether to begin no election yet (KIP-642, Bootstrapping Procedure)."""
        return self._has_to_find_voters() or self._has_to_look_for_quorum()

    def _has_to_look_for_quorum(self) -> bool:
        """Whether there is a quorum, or may be one, whose voters are not the configured ones."""
        if self._settings.configured_voters != "fallback" or not self._voters.is_configured:
            return False
        return self._quorum.state.leader_id is not None or not self._context.has_asked_all

    def _has_to_find_voters(self) -> bool:
        """Whether fewer than a majority of the voters are known by their address (KIP-642, Bootstrapping Procedure)."""
        settings = self._settings
        if settings.voter_addresses == "configured" or settings.has("election-before-discovery"):
            return False
        located = {*self._context.located, settings.node_id}
        return len(located & set(self._voters.ids)) < self._voters.majority

    def _note_fetch_timeout(self) -> None:
        if self._voters.may_campaign:
            new, old = (
                "Transitioning to Prospective state due to fetch timeout",
                "Become candidate due to fetch timeout",
            )
            self._context.note(new if self._settings.pre_vote else old)

    def begin_election(self, cause: Cause) -> None:
        """Leave the state because of a timeout; the table says for which state and epoch."""
        row = self._quorum.table.target(self._quorum.state.kind, cause)
        assert row is not None
        self._quorum.move(cause, self._quorum.epoch + (1 if row.epoch == "next" else 0))
        self.count_votes()

    def _win(self, state: VoteSeeker) -> None:
        if isinstance(state, Prospective):
            self._quorum.move(Cause.MAJORITY_OF_PRE_VOTES, self._candidacy_epoch(state))
            self.count_votes()
        else:
            if self._settings.has("new-leader-discards-uncommitted"):
                self._discard_uncommitted()
            self._quorum.move(Cause.MAJORITY_OF_VOTES, state.epoch)

    def _candidacy_epoch(self, state: Prospective) -> int:
        """The next epoch; with the mutant, that of the candidacy before if there was one in this epoch."""
        is_retry = state.voted_id == self._settings.node_id
        return state.epoch if is_retry and self._settings.has("candidate-retries-in-its-epoch") else state.epoch + 1

    def _discard_uncommitted(self) -> None:
        """Of new-leader-discards-uncommitted. A node that has just restarted knows no high watermark and keeps all."""
        log = self._context.log
        if 0 <= log.high_watermark < log.end_offset:
            self._context.truncate(log.high_watermark)

    def _lose(self, state: VoteSeeker) -> None:
        if isinstance(state, Prospective):
            self._context.note(
                "Insufficient remaining votes to become candidate. "
                f"Current epoch election state is {epoch_election(state, self._voters.ids)}."
            )
            self._end_pre_votes(Cause.ELECTION_LOST, Cause.ELECTION_LOST_LEADER_KNOWN)
        elif self._backs_off_when_rejected and not state.is_backing_off:
            self._back_off(state)

    @property
    def _backs_off_when_rejected(self) -> bool:
        return not self._settings.pre_vote or self._settings.candidate_backoff == "exponential"

    def _end_pre_votes(self, leader_unknown: Cause, leader_known: Cause) -> None:
        """KIP-996: return to the known leader, if its endpoint is known too; otherwise become Unattached."""
        if self._settings.has("prospective-never-fetches"):
            self._repeat_pre_votes()
        else:
            self._quorum.move(leader_known if self._returns_to_leader() else leader_unknown, self._quorum.epoch)

    def _returns_to_leader(self) -> bool:
        leader_id, settings = self._quorum.state.leader_id, self._settings
        if leader_id is None:
            return False
        if settings.has("resigned-keeps-its-epoch") and leader_id == settings.node_id:
            return True
        return self._may_lead(leader_id) and settings.prospective_follows != "begin-quorum"

    def _repeat_pre_votes(self) -> None:
        """The mutant of PV-24: the Prospective waits for its timeout, then asks again, and fetches from nobody."""
        state, now_ms = self._quorum.state, self._context.now_ms
        if isinstance(state, Prospective) and now_ms >= state.deadline_ms:
            deadline_ms, me = now_ms + self._context.draw_election_timeout_ms(), self._settings.node_id
            again = dataclasses.replace(state, deadline_ms=deadline_ms, granted=frozenset({me}), rejected=frozenset())
            self._quorum.update(again)

    def _expire_candidacy(self, state: Candidate) -> None:
        """KIP-996: Prospective, after the full timeout or, if the election was lost, after candidate_backoff.

        KIP-595: back off, then start another election.
        """
        if self._settings.pre_vote:
            self._context.note("Election was not granted, transitioning to prospective")
            lost = len(self._voters.ids) - len(state.rejected) < self._voters.majority
            self.begin_election(Cause.ELECTION_LOST if lost else Cause.ELECTION_TIMEOUT)
        elif state.is_backing_off:
            self._context.note("Re-elect as candidate after election backoff has completed")
            self.begin_election(Cause.ELECTION_TIMEOUT)
        else:
            self._back_off(state)

    def _back_off(self, state: Candidate) -> None:
        rounds = 2 << min(20, state.retries - 1)
        backoff_ms = min(_BACKOFF_BASE_MS * self._context.draw(0, rounds), self._settings.election_backoff_max_ms)
        self._context.note(f"Election has timed out, backing off for {backoff_ms}ms before becoming a candidate again")
        deadline_ms = self._context.now_ms + backoff_ms
        self._quorum.update(dataclasses.replace(state, deadline_ms=deadline_ms, is_backing_off=True))

    def _ignores(self, request: VoteRequest) -> bool:
        """KIP-996's rejected alternative: who leads or hears from its leader keeps its epoch and grants no vote."""
        if request.pre_vote or not self._settings.deny_votes_within_fetch_timeout:
            return False
        match self._quorum.state:
            case Follower(has_fetched=has_fetched, deadline_ms=deadline_ms):
                return has_fetched and self._context.now_ms < deadline_ms
            case Leader():
                return True
        return False

    def _grants(self, request: VoteRequest) -> bool:
        state = self._quorum.state
        if self._quorum.has_new_disk and request.end_offset > 0 and not self._settings.new_disk_votes:
            return False
        if request.pre_vote:
            return self._is_up_to_date(request) and self._may_grant_pre_vote()
        if self._context.now_ms < self._quorum.promised_until_ms or not self._may_vote:
            return False
        if not isinstance(state, Unattached | Prospective):
            return False
        if state.voted_id is not None and not self._settings.has("second-vote-in-an-epoch"):
            return state.voted_id == request.replica_id
        return state.leader_id is None and self._is_up_to_date(request)

    @property
    def _may_vote(self) -> bool:
        """Where voters change, a node may vote without knowing it: its log may be behind the candidate's."""
        return self._settings.changes_voters or self._voters.is_voter

    def _is_up_to_date(self, request: VoteRequest) -> bool:
        """Whether the sender's log is at least as up to date as this node's (Raft, 5.4.1)."""
        log, settings = self._context.log, self._settings
        if settings.has("vote-ignores-log"):
            return True
        if settings.has("vote-compares-length-only"):
            return request.end_offset >= log.end_offset
        if settings.has("vote-compares-epoch-only"):
            return request.last_epoch >= log.last_epoch
        if settings.has("vote-compares-committed-only"):
            return request.end_offset >= log.high_watermark
        return (request.last_epoch, request.end_offset) >= (log.last_epoch, log.end_offset)

    def _may_grant_pre_vote(self) -> bool:
        """KIP-996: every node except leaders and followers that have fetched; grants are not binding."""
        match self._quorum.state:
            case Follower(has_fetched=has_fetched):
                has_fetched = has_fetched or self._settings.has("followers-always-deny-pre-vote")
                return not (has_fetched and self._settings.follower_denies_pre_vote)
            case Unattached() | Prospective() | Candidate() | Resigned():
                return True
        return False

    def _vote_error(self, request: VoteRequest) -> ErrorCode:
        error = self._epoch_error(request.cluster_id, request.replica_id, request.replica_epoch)
        # A candidate has raised its epoch, so its last record is from an earlier epoch. A prospective has not.
        last_epoch_max = request.replica_epoch if request.pre_vote else request.replica_epoch - 1
        is_valid = 0 <= request.last_epoch <= last_epoch_max and request.end_offset >= 0
        if error is ErrorCode.none and not is_valid:
            return ErrorCode.invalid_request
        is_for_another = request.voter_id not in (NO_NODE, self._settings.node_id)
        if error is ErrorCode.none and (is_for_another or self._is_for_another_directory(request.voter_directory_id)):
            return ErrorCode.invalid_voter_key
        return error

    def _is_for_another_directory(self, directory_id: uuid.UUID | None) -> bool:
        """Whether a request is for the voter that this node was before it lost its disk (KIP-853)."""
        return self._settings.has_directories and directory_id not in (None, self._settings.directory_id)

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
        """KIP-595: the first successor without delay, the others after exponentially growing delays."""
        maximum_ms, me = self._settings.election_backoff_max_ms, self._settings.node_id
        position = successors.index(me) if me in successors else len(successors)
        if position == 0:
            return 0
        if position == len(successors):
            return maximum_ms
        return min(maximum_ms, (maximum_ms >> (len(successors) - 1)) << (position - 1))
