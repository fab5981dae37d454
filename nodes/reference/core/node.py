"""A node of the quorum: takes events, returns effects.

Dispatches events to elections, following and leadership, and determines which requests each state sends. Contains no
protocol decisions.

    event ─► handle ─► elections, following, leadership ─► expire ─► advance ─► send ─► effects
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from harness.model.quorum_states import Cause, TransitionTable
from nodes.reference.core.context import Context
from nodes.reference.core.controller.messages import ControllerRequest, NotController
from nodes.reference.core.events import (
    Answered,
    Arrived,
    Discovered,
    Draw,
    Effect,
    Event,
    Failed,
    Halt,
    LogsReported,
    Reply,
    RequestId,
    Stopping,
    Stored,
)
from nodes.reference.core.messages import (
    NO_NODE,
    AddVoterRequest,
    Advertised,
    AlterRequest,
    AlterResponse,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DiscoverRequest,
    DiscoverResponse,
    EndQuorumEpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    NominateRequest,
    PeerRequest,
    ReadRequest,
    ReadResponse,
    ReassignRequest,
    ReassignResponse,
    RemoveVoterRequest,
    Response,
    UpdateVoterRequest,
    VoteRequest,
    VoteResponse,
    VoterRequest,
    VoterResponse,
)
from nodes.reference.core.records.applied import AppliedMetadata
from nodes.reference.core.records.log import Log
from nodes.reference.core.roles.discovering import Discovering
from nodes.reference.core.roles.elections import Elections
from nodes.reference.core.roles.following import Following
from nodes.reference.core.roles.leadership import NO_CONTROLLER, Leadership, active_controller
from nodes.reference.core.roles.requests import Requests
from nodes.reference.core.roles.snapshotting import Snapshotting, of_snapshot
from nodes.reference.core.roles.state_machine import Quorum
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
from nodes.reference.core.voters import Voters


class Node:
    """One member of the quorum, voter or observer. The effects of its start are returned by the first event."""

    def __init__(
        self, settings: NodeSettings, stored: Stored, draw: Draw, now_ms: int, wall_offset_ms: int = 0
    ) -> None:
        self._settings = settings
        self._context = Context.restored(settings, stored, draw, now_ms, wall_offset_ms)
        self._voters = self._context.voters
        self._quorum = Quorum(self._context, stored.election)
        self._elections = Elections(self._context, self._quorum)
        self._snapshotting = Snapshotting(self._context)
        self._following = Following(self._context, self._quorum, self._snapshotting)
        self._requests = Requests(self._context)
        self._discovering = Discovering(self._context)
        self._leadership: Leadership | None = None
        self._requesting_state = self._quorum.state  # the state that sent the pending requests
        self._begin_ms = now_ms  # when BeginQuorumEpoch is next due
        self._halt_ms = NEVER_MS  # when a graceful shutdown stops waiting for acknowledgements
        self._trust_what_was_stored()

    def _trust_what_was_stored(self) -> None:
        """Three mutants of a restart. Without them, nothing of the log counts as committed until a leader says so, and
        a vote wins no election of an epoch whose leader is known."""
        log, metadata = self._context.log, self._context.metadata
        if self._settings.has("log-end-committed-on-restart"):
            log.high_watermark = log.end_offset
            metadata.advance(log, log.end_offset)
        if self._settings.has("log-not-replayed-on-restart"):
            metadata.applied_offset = log.end_offset
        if self._settings.has("own-vote-restored-before-leader"):
            self._elections.count_votes()

    @property
    def state(self) -> QuorumState:
        """The current state, with its epoch and leader."""
        return self._quorum.state

    @property
    def leader_id(self) -> int | None:
        """The leader to report to clients; None if none is known or this node was the leader and resigned."""
        state = self._quorum.state
        return None if isinstance(state, Resigned) else state.leader_id

    @property
    def table(self) -> TransitionTable:
        """The transitions that this node executes."""
        return self._quorum.table

    @property
    def metadata(self) -> AppliedMetadata:
        """The metadata that is committed as far as this node knows, for reading."""
        return self._context.metadata

    @property
    def voters(self) -> Voters:
        """Who votes according to the log, for reading."""
        return self._voters

    @property
    def known(self) -> Mapping[int, Advertised]:
        """Where the nodes listen that this one has found, by id."""
        return self._discovering.known

    @property
    def log(self) -> Log:
        """The log, for reading."""
        return self._context.log

    @property
    def deadline_ms(self) -> int:
        """When to pass Tick if there is no event before."""
        state_ms = NEVER_MS if self._is_stopping else self._quorum.state.deadline_ms
        of_parts_ms = self._requests.deadline_ms, self._discovering.deadline_ms, self._snapshotting.deadline_ms
        deadline_ms = min(state_ms, self._halt_ms, *of_parts_ms)
        if self._leadership is None:
            return deadline_ms
        return min(deadline_ms, self._leadership.deadline_ms, self._begin_ms)

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; the caller carries out the returned effects in order."""
        context = self._context
        context.now_ms, context.turn = max(now_ms, context.now_ms), context.turn + 1
        match event:
            case Arrived():
                self._arrived(event)
            case Answered(peer, request_id, response):
                self._answered(peer, request_id, response)
            case Failed(peer, request_id, unsupported_version):
                if self._requests.ended(peer, request_id, retry_later=True) and unsupported_version:
                    self._elections.pre_vote_unsupported()
            case LogsReported():
                if self._leadership is not None:
                    self._leadership.reported(event)
            case Discovered(response=response):
                self._discovered(response)
            case Stopping():
                self._stop()
        self._advance()
        return context.take_effects()

    def _advance(self) -> None:
        """Do what is due after any event."""
        self._requests.expire()
        self._follow_transitions()
        while not self._is_stopping and self._elections.expire():
            self._follow_transitions()
        if self._leadership is not None and self._leadership.has_lost_quorum():
            self._leadership.note_lost_quorum()
            self._leave_leadership()
        self._advance_leadership()
        self._snapshotting.advance()
        self._quorum.persist_voters()
        self._discovering.advance(self.leader_id, self._quorum.epoch)
        self._send_requests()
        self._halt_if_done()

    def _advance_leadership(self) -> None:
        if self._leadership is not None:
            self._leadership.advance()
            if self._leadership.steps_down:
                self._resign(Cause.REASSIGNED)

    def _follow_transitions(self) -> None:
        """Begin and end leadership with the state, and abandon requests of a previous state."""
        state = self._quorum.state
        if state is not self._requesting_state:
            if self._is_left(self._requesting_state):
                self._requests.clear()
            self._requesting_state = state
        if self._leadership is not None and not isinstance(state, Leader):
            self._leadership.end(self._fetch_error_response(ErrorCode.not_leader_or_follower))
            self._leadership = None
        if self._leadership is None and isinstance(state, Leader):
            self._leadership = Leadership(self._context, state)
            self._begin_ms = self._context.now_ms

    def _is_left(self, earlier: QuorumState) -> bool:
        """Whether responses to requests of that state are obsolete now; the mutant of PV-26 keeps its pre-votes."""
        state = self._quorum.state
        if self._settings.has("pre-vote-counted-as-vote") and isinstance(state, Candidate):
            return not isinstance(earlier, VoteSeeker)
        return (state.kind, state.epoch, state.leader_id) != (earlier.kind, earlier.epoch, earlier.leader_id)

    def _arrived(self, event: Arrived) -> None:
        request_id = event.request_id
        match event.request:
            case VoteRequest() as request:
                self._reply(request_id, self._elections.handle_vote(request))
            case BeginQuorumEpochRequest() as request:
                self._reply(request_id, self._elections.handle_begin_quorum_epoch(request))
            case EndQuorumEpochRequest() as request:
                self._reply(request_id, self._elections.handle_end_quorum_epoch(request))
            case FetchRequest() | FetchSnapshotRequest() as request:
                self._fetch_arrived(event, request)
            case AlterRequest() as request:
                self._write_arrived(request_id, request)
            case ReassignRequest() as request:
                self._reassign_arrived(request_id, request)
            case AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest() as request:
                self._voter_change_arrived(request_id, request)
            case NominateRequest() as request:
                self._reply(request_id, self._nominated(request))
            case ReadRequest() as request:
                self._read_arrived(request_id, request)
            case DescribeQuorumRequest():
                self._reply(request_id, self.describe())
            case DiscoverRequest() as request:
                self._reply(request_id, self._discovering.response(request, self.leader_id, self._quorum.epoch))
            case _ as request:
                self._control_arrived(request_id, request)

    def _fetch_arrived(self, event: Arrived, request: FetchRequest | FetchSnapshotRequest) -> None:
        error = self._fetch_error(request)
        if self._leadership is None or error is not ErrorCode.none:
            failed = self._fetch_error_response(error)
            self._reply(
                event.request_id, of_snapshot(failed, request) if isinstance(request, FetchSnapshotRequest) else failed
            )
        elif isinstance(request, FetchSnapshotRequest):
            self._leadership.fetch_snapshot(event.request_id, request)
        else:
            self._leadership.fetch(event, request)

    def _fetch_error(self, request: FetchRequest | FetchSnapshotRequest) -> ErrorCode:
        epoch = self._quorum.epoch
        if request.cluster_id not in (None, self._settings.cluster_id):
            return ErrorCode.inconsistent_cluster_id
        if isinstance(request, FetchRequest) and not request.is_valid:
            return ErrorCode.invalid_request
        if request.epoch != epoch:
            return ErrorCode.fenced_leader_epoch if request.epoch < epoch else ErrorCode.unknown_leader_epoch
        return ErrorCode.none if self._leadership is not None else ErrorCode.not_leader_or_follower

    def _fetch_error_response(self, error: ErrorCode) -> FetchResponse:
        state = self._quorum.state
        return FetchResponse(error, NO_NODE if state.leader_id is None else state.leader_id, state.epoch)

    def _write_arrived(self, request_id: RequestId, request: AlterRequest) -> None:
        if self._leadership is None:
            self._reply(request_id, AlterResponse(ErrorCode.not_controller, self._not_controller_reason()))
        elif not request.changes:
            self._reply(request_id, AlterResponse(ErrorCode.none))
        else:
            self._leadership.write(request_id, request)

    def _reassign_arrived(self, request_id: RequestId, request: ReassignRequest) -> None:
        if self._leadership is None:
            reason = self._not_controller_reason()
            self._reply(request_id, ReassignResponse(ErrorCode.not_leader_or_follower, reason))
        else:
            self._leadership.reassign(request_id, request)

    def _voter_change_arrived(self, request_id: RequestId, request: VoterRequest) -> None:
        if self._leadership is not None:
            self._leadership.change_voter(request_id, request)
            return
        leader_id = NO_NODE if self.leader_id is None else self.leader_id
        reason = self._not_controller_reason()
        self._reply(request_id, VoterResponse(ErrorCode.not_leader_or_follower, leader_id, self._quorum.epoch, reason))

    def _nominated(self, request: NominateRequest) -> EpochResponse:
        state, error = self._quorum.state, ErrorCode.none
        if request.cluster_id not in (None, self._settings.cluster_id):
            error = ErrorCode.inconsistent_cluster_id
        elif self._leadership is None or request.epoch != state.epoch:
            error = ErrorCode.not_leader_or_follower
        else:
            self._leadership.nominate(request.node_id)
        return EpochResponse(error, NO_NODE if state.leader_id is None else state.leader_id, state.epoch)

    def _control_arrived(self, request_id: RequestId, request: ControllerRequest) -> None:
        if self._leadership is None:
            self._reply(request_id, NotController())
        else:
            self._leadership.control(request_id, request)

    def _read_arrived(self, request_id: RequestId, request: ReadRequest) -> None:
        if self._settings.read_mode == "local" or self._reads_when_resigned():
            values = self._context.metadata.read(request.resources)
            self._reply(request_id, ReadResponse(ErrorCode.none, values=values))
        elif self._leadership is None:
            self._reply(request_id, ReadResponse(ErrorCode.not_controller, self._not_controller_reason()))
        else:
            self._leadership.read(request_id, request)

    def _reads_when_resigned(self) -> bool:
        return self._settings.has("resigned-leader-answers-reads") and isinstance(self._quorum.state, Resigned)

    def _not_controller_reason(self) -> str:
        """Kafka's ControllerExceptions: clients tell by the text whether a write was rejected or may have started."""
        return NO_CONTROLLER if self.leader_id is None else active_controller(self.leader_id)

    def describe(self) -> DescribeQuorumResponse:
        """The response to DescribeQuorum."""
        if self._leadership is not None:
            return self._leadership.describe()
        leader_id, epoch = NO_NODE, 0
        if self._settings.not_leader_names_leader and self.leader_id is not None:
            leader_id, epoch = self.leader_id, self._quorum.epoch
        return DescribeQuorumResponse(ErrorCode.not_leader_or_follower, leader_id, epoch)

    def _answered(self, peer: int, request_id: RequestId, response: Response) -> None:
        if not self._requests.ended(peer, request_id, retry_later=False):
            return
        match response:
            case VoteResponse():
                self._elections.handle_vote_response(peer, response)
            case FetchResponse():
                is_obsolete = self._elections.learn_from_response(response)
                if not is_obsolete and response.error is ErrorCode.none and peer == self._leader_outside_voters():
                    self._context.emit(Halt("Expected to be Follower, but the current state is Unattached"))
                if is_obsolete or not self._following.apply(response):
                    self._requests.back_off(peer)
            case FetchSnapshotResponse():
                if self._elections.learn_from_response(response) or not self._following.apply_snapshot(response):
                    self._requests.back_off(peer)
            case EpochResponse():
                if not self._elections.learn_from_response(response):
                    self._acknowledged(peer)

    def _discovered(self, response: DiscoverResponse | None) -> None:
        """Learn the addresses and the leader that another node knows."""
        self._discovering.ended()
        if response is not None and response.error is ErrorCode.none:
            self._discovering.learn(response.brokers)
            is_news = response.epoch > self._quorum.epoch or self._quorum.state.leader_id is None
            if response.leader_id != NO_NODE and is_news:
                self._elections.learn(response.leader_id, response.epoch)

    def _acknowledged(self, peer: int) -> None:
        state = self._quorum.state
        if isinstance(state, Resigned):
            self._quorum.update(dataclasses.replace(state, unacknowledged=state.unacknowledged - {peer}))
        elif self._settings.has("removed-voter-ends-leader") and peer not in self._voters.others:
            self._context.emit(Halt(f"Unexpected acknowledgement from non-voter {peer}"))

    def _send_requests(self) -> None:
        """Send the requests of the current state to the peers that are ready."""
        match self._quorum.state:
            case Unattached():
                self._look_for_leader()
            case Follower(leader_id=leader_id):
                self._send_to([] if leader_id == self._settings.node_id else [leader_id])
            case Prospective() | Candidate() as state:
                if self._may_still_win(state):
                    self._send_to(
                        [voter for voter in self._voters.others if voter not in state.granted | state.rejected]
                    )
            case Leader():
                self._announce_leadership()
            case Resigned(unacknowledged=unacknowledged):
                self._send_to(sorted(unacknowledged))

    def _look_for_leader(self) -> None:
        """KIP-996: an Unattached node fetches from a random voter. Before it, only observers did."""
        if self._settings.pre_vote or not self._voters.is_voter:
            peer = self._requests.ready_among(self._peers_to_ask())
            if peer is not None:
                self._requests.send(peer, self._following.request())

    def _peers_to_ask(self) -> tuple[int, ...]:
        """The other voters; with the mutant of EX-07 a leader that is none of them, too."""
        outsider = self._leader_outside_voters()
        return self._voters.others if outsider is None else (*self._voters.others, outsider)

    def _leader_outside_voters(self) -> int | None:
        """The leader that an Unattached node knows and does not follow, as only the mutant of EX-07 makes it."""
        state = self._quorum.state
        is_planted = self._settings.has("unattached-ends-at-leaders-response")
        return state.leader_id if is_planted and isinstance(state, Unattached) else None

    def _announce_leadership(self) -> None:
        """Send BeginQuorumEpoch twice per fetch timeout to the voters that do not fetch."""
        if self._leadership is not None and self._context.now_ms >= self._begin_ms:
            interval_ms = max(1, self._settings.fetch_timeout_ms // 2)
            self._begin_ms = self._context.now_ms + interval_ms
            self._send_to(self._leadership.silent_voters(self._context.now_ms - interval_ms))

    def _send_to(self, peers: list[int]) -> None:
        for peer in peers:
            if self._requests.is_ready(peer):
                self._requests.send(peer, self._request_to(peer))

    def _request_to(self, peer: int) -> PeerRequest:
        settings, state = self._settings, self._quorum.state
        match state:
            case Prospective() | Candidate():
                return self._elections.request(state, peer)
            case Leader():
                directory_id = self._voters.key_of(peer).directory_id
                return BeginQuorumEpochRequest(settings.cluster_id, settings.node_id, state.epoch, directory_id)
            case Resigned():
                return EndQuorumEpochRequest(settings.cluster_id, settings.node_id, state.epoch, state.successors)
        return self._following.request_to_leader()

    def _may_still_win(self, state: VoteSeeker) -> bool:
        is_backing_off = isinstance(state, Candidate) and state.is_backing_off
        return not is_backing_off and len(self._voters.ids) - len(state.rejected) >= self._voters.majority

    def _leave_leadership(self) -> None:
        """Check Quorum failed: resign, start an election as KIP-595 says, or ask who leads as KIP-642 says."""
        if self._settings.leader_without_majority == "new-election":
            self._elections.begin_election(Cause.CHECK_QUORUM)
            self._follow_transitions()
        elif self._settings.leader_without_majority == "asks":
            assert self._leadership is not None
            self._leadership.reset_check_quorum()
            self._discovering.hurry()
        else:
            self._resign(Cause.CHECK_QUORUM)

    def _resign(self, cause: Cause) -> None:
        assert self._leadership is not None
        successors = self._leadership.successors()
        self._quorum.resign(cause, successors)
        self._follow_transitions()

    @property
    def _is_stopping(self) -> bool:
        return self._halt_ms != NEVER_MS

    def _stop(self) -> None:
        """A leader sends EndQuorumEpoch first, so that the others do not wait for a timeout."""
        self._context.note("Beginning graceful shutdown")
        if self._leadership is not None:
            self._resign(Cause.SHUTDOWN)
        self._halt_ms = self._context.now_ms + self._settings.request_timeout_ms

    def _halt_if_done(self) -> None:
        if not self._is_stopping:
            return
        state = self._quorum.state
        is_acknowledged = not (isinstance(state, Resigned) and state.unacknowledged)
        if is_acknowledged or self._context.now_ms >= self._halt_ms:
            self._context.emit(Halt())

    def _reply(self, request_id: RequestId, response: Response) -> None:
        self._context.emit(Reply(request_id, response))
