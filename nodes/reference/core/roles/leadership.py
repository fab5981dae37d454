"""Leaders: serve fetches, advance the high watermark, commit writes, answer reads, and detect the loss of the quorum.

Contains the state that exists only between winning an election and losing leadership; an instance is one such term.
Does not contain votes and transitions.

Reads. The response must include every write acknowledged before the read arrived, by any leader. There are two proofs,
both from fetch responses known to have been received (see progress):

* read-index: a majority, including the leader, still fetched in this epoch after the read arrived. Needs no clock.
* lease: a majority received responses sent less than read_lease_ms ago, and none of these voters votes for another
  node within a fetch timeout of receiving one. Sound if and only if pre_vote and follower_denies_pre_vote are on and
  read_lease_ms < fetch_timeout_ms * (1 - clock drift), and voters keep the promise in elections' docstring. The promise
  covers what KIP-996 leaves open: candidacies from before the lease, and voters that restart. With a lease longer than
  the fetch timeout (Check Quorum alone would allow 1.5 times it) reads can be stale. When the lease has expired,
  read-index is used.

In both cases a new leader first commits a record of its own epoch. In read mode `local` every node answers from its
own state, as Kafka's controllers do, and reads can be stale.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode

from nodes.reference.core.context import Context
from nodes.reference.core.controller.messages import ControllerRequest
from nodes.reference.core.events import Arrived, LogsReported, Reply, RequestId
from nodes.reference.core.messages import (
    NO_NODE,
    NOT_FOLLOWER,
    AlterRequest,
    AlterResponse,
    DescribeQuorumResponse,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ReadRequest,
    ReadResponse,
    ReassignRequest,
    ReplicaKey,
    ReplicaProgress,
    VoterRequest,
)
from nodes.reference.core.records.control import leader_change
from nodes.reference.core.records.metadata import NO_OP, encode_config
from nodes.reference.core.roles.controlling import Controlling
from nodes.reference.core.roles.progress import NEVER_BEFORE_MS, Progress, reached_by_majority
from nodes.reference.core.roles.reassigning import Reassigning
from nodes.reference.core.roles.snapshotting import piece_of
from nodes.reference.core.roles.states import Leader
from nodes.reference.core.roles.voter_changing import VoterChanging
from nodes.reference.core.settings import NEVER_MS
from nodes.wire.batches import Record, encode_batch

NO_CONTROLLER = "No controller appears to be active."
_OBSERVER_SESSION_MS = 300_000


def active_controller(leader_id: int) -> str:
    """The message of an error by which clients tell that a request was rejected, and so had no effect."""
    return f"The active controller appears to be node {leader_id}."


@dataclass(frozen=True, slots=True)
class _ParkedFetch:
    """A fetch of a replica without new data; answered at deadline_ms at the latest."""

    arrived: Arrived
    request: FetchRequest
    progress: Progress
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class _Write:
    """An appended write; committed once the high watermark reaches end_offset."""

    request_id: RequestId
    end_offset: int


@dataclass(frozen=True, slots=True)
class _Read:
    """A read that waits for its proof; turn is that of its arrival."""

    request_id: RequestId
    resources: tuple[str, ...]
    turn: int


class Leadership:
    """One term: from winning the election until resignation or a higher epoch."""

    def __init__(self, context: Context, state: Leader) -> None:
        self._context, self._settings, self._state = context, context.settings, state
        self._voters = context.voters
        self._replicas = {key: Progress() for key in self._voters.other_keys}  # observers too, once they have fetched
        self._parked: list[_ParkedFetch] = []
        self._lingering: list[tuple[RequestId, Sequence[Record]]] = []  # accepted, not yet appended
        self._flush_ms = NEVER_MS
        self._writes: deque[_Write] = deque()  # appended, not yet committed
        self._reads: list[_Read] = []
        self._fetched_since: set[ReplicaKey] = set()  # voters that fetched since the Check Quorum timer was reset
        self._check_quorum_ms = context.now_ms + self._settings.check_quorum_timeout_ms
        self._idle_since_ms = context.now_ms
        self.high_watermark = -1  # of this epoch: unknown until a record of it is committed
        self._controlling = Controlling(context, self._append)
        self._reassigning = Reassigning(context, state, self._append)
        self._voter_changing = VoterChanging(context, state, self._append)
        self._reassigning.begin()
        first_records = [leader_change(self._voters.ids, state), *self._voter_changing.first_records()]
        self._append(first_records, is_control=True)

    def fetch(self, arrived: Arrived, request: FetchRequest) -> None:
        """Handle a fetch of this epoch: record the replica's progress, and respond now or when there is new data."""
        log = self._context.log
        if self._reassigning.is_news_of_removal(request):
            self._reply(arrived.request_id, FetchResponse(NOT_FOLLOWER, self._settings.node_id, self._state.epoch))
            return
        snapshot = self._context.snapshot
        if snapshot is not None and log.needs_snapshot(request.fetch_offset, request.last_fetched_epoch):
            self._reply(arrived.request_id, replace(self._fetch_response(b""), snapshot_id=snapshot.id))
            return
        diverging = self._divergence(request)
        if diverging is not None:
            response = replace(self._fetch_response(b""), high_watermark=self.high_watermark, diverging=diverging)
            self._reply(arrived.request_id, response)
            return
        replica = self._replica(request)
        progress = self._progress(replica)
        confirms = progress.fetched(arrived.connection, request.fetch_offset, log.end_offset, self._context.now_ms)
        if confirms or self._settings.check_quorum_counts == "requests":
            self._count_for_check_quorum(replica)
        self._advance_high_watermark()
        parked = _ParkedFetch(arrived, request, progress, self._context.now_ms + request.max_wait_ms)
        if not self._answer_fetch(parked):
            self._parked.append(parked)

    def fetch_snapshot(self, request_id: RequestId, request: FetchSnapshotRequest) -> None:
        """Respond with a piece of the latest snapshot; who fetches it counts as a live follower."""
        self._count_for_check_quorum(self._settings.replica(request.replica_id, request.directory_id))
        me, epoch = self._settings.node_id, self._state.epoch
        self._reply(request_id, piece_of(self._context.snapshot, request, me, epoch))

    def _divergence(self, request: FetchRequest) -> EpochEnd | None:
        log = self._context.log
        if self._settings.has("divergence-ignores-epochs"):
            is_longer = request.fetch_offset > log.end_offset
            return EpochEnd(request.last_fetched_epoch, log.end_offset) if is_longer else None
        return log.divergence(request.fetch_offset, request.last_fetched_epoch)

    def write(self, request_id: RequestId, request: AlterRequest) -> None:
        """Handle a write; the response follows when it is committed, or when leadership ends."""
        self._lingering.append((request_id, [encode_config(change) for change in request.changes]))
        self._flush_ms = min(self._flush_ms, self._context.now_ms + self._settings.append_linger_ms)

    def reassign(self, request_id: RequestId, request: ReassignRequest) -> None:
        """Handle a reassignment of the voters; the response follows when the target is committed."""
        self._reassigning.handle(request_id, request)

    def change_voter(self, request_id: RequestId, request: VoterRequest) -> None:
        """Handle a change of one voter; the response follows when it is committed, refused or overdue."""
        self._voter_changing.handle(request_id, request)

    def nominate(self, observer: int) -> None:
        """An observer says that it has caught up."""
        self._reassigning.nominate(observer)

    def read(self, request_id: RequestId, request: ReadRequest) -> None:
        """Handle a read; the response follows when it is known that no other node led when it arrived."""
        self._reads.append(_Read(request_id, request.resources, self._context.turn))

    def control(self, request_id: RequestId, request: ControllerRequest) -> None:
        """Handle a request to the controller; the response follows when it is committed, or when leadership ends."""
        self._controlling.handle(request_id, request)

    def reported(self, reported: LogsReported) -> None:
        """A broker has said which logs it has."""
        self._controlling.reported(reported)

    def advance(self) -> None:
        """Do what is due after an event: append, commit, respond."""
        self._flush()
        self._controlling.expire()
        interval_ms = self._settings.max_idle_interval_ms
        if interval_ms and self._context.now_ms >= self._idle_since_ms + interval_ms:
            self._append([NO_OP])
        self._advance_high_watermark()
        while self._changes_voters():
            self.reset_check_quorum()  # the change before was committed, so a majority was here just now
            self._advance_high_watermark()
        for parked in self._take_parked():
            if not self._answer_fetch(parked):
                self._parked.append(parked)
        self._answer_reads()

    def _changes_voters(self) -> bool:
        """Take the next step of a change of the voters, if it is due; returns whether one was taken."""
        if not self._settings.changes_voters:
            return False
        by_node = {key.node_id: progress for key, progress in self._replicas.items()}
        is_step = self._reassigning.advance(self.high_watermark, by_node)
        return self._voter_changing.advance(self.high_watermark, self._replicas) or is_step

    def has_lost_quorum(self) -> bool:
        """Check Quorum (KAFKA-15489): no majority has fetched within the timeout."""
        enabled = self._settings.check_quorum and self._voters.others
        return bool(enabled) and self._context.now_ms >= self._check_quorum_ms

    def note_lost_quorum(self) -> None:
        """Log the loss, in Kafka's wording."""
        fetched = sorted(key.node_id for key in self._fetched_since)
        self._context.note(
            "Did not receive fetch request from the majority of the voters within "
            f"{self._settings.check_quorum_timeout_ms}ms. Current fetched voters are {fetched}, "
            f"and voters are {list(self._voters.ids)}",
            "LeaderState",
        )

    def end(self, response: FetchResponse) -> None:
        """Leadership ends: respond to all pending requests; fetches get the given response."""
        for parked in self._take_parked():
            self._reply(parked.arrived.request_id, response)
        for request_id, _ in self._lingering:
            self._reply(request_id, AlterResponse(ErrorCode.not_controller, NO_CONTROLLER))
        for write in self._writes:
            self._reply(write.request_id, self._outcome_at_end(response.leader_id))
        self._controlling.end()
        self._reassigning.end()
        self._voter_changing.end()
        for read in self._reads:
            if self._settings.has("pending-reads-answered"):
                self._answer_read(read)
            else:
                self._reply(read.request_id, ReadResponse(ErrorCode.not_controller, NO_CONTROLLER))

    def _outcome_at_end(self, leader_id: int) -> AlterResponse:
        """The outcome of an appended write is unknown; with a mutant, it is an acknowledgement or a rejection."""
        if self._settings.has("pending-writes-acknowledged"):
            return AlterResponse(ErrorCode.none)
        is_rejected = leader_id != NO_NODE and self._settings.has("pending-writes-rejected")
        return AlterResponse(ErrorCode.not_controller, active_controller(leader_id) if is_rejected else NO_CONTROLLER)

    def successors(self) -> tuple[int, ...]:
        """The other voters, by descending log end."""
        progress = self._progress_of_voters()
        return tuple(sorted(progress, key=lambda voter: (-progress[voter].end_offset, voter)))

    def silent_voters(self, since_ms: int) -> list[int]:
        """The voters that have not fetched since then; they may not know the leader."""
        return [voter for voter, progress in self._progress_of_voters().items() if progress.last_fetch_ms < since_ms]

    @property
    def steps_down(self) -> bool:
        """Whether a change of the voters requires another leader."""
        return self._reassigning.steps_down or self._voter_changing.steps_down

    def describe(self) -> DescribeQuorumResponse:
        """The response to DescribeQuorum, with wall-clock times; a leader that is no voter is among the observers."""
        context, me, assignment = self._context, self._settings.key, self._voters.effective.assignment
        since_ms, target = context.now_ms - _OBSERVER_SESSION_MS, self._voters.last.assignment.target
        known = sorted(self._replicas.items(), key=lambda item: (item[0].node_id, str(item[0].directory_id)))
        others = [each for each in known if each[0] != me and each[0] not in assignment.keys]
        observers = [key for key, progress in others if progress.last_fetch_ms >= since_ms]
        if me not in assignment.keys:  # as Kafka lists a leader that is removed
            observers.insert(0, me)
        return DescribeQuorumResponse(
            ErrorCode.none,
            me.node_id,
            self._state.epoch,
            self.high_watermark,
            tuple(map(self._describe_replica, assignment.keys)),
            tuple(map(self._describe_replica, observers)),
            None if target is None else tuple(self._describe_replica(ReplicaKey(node)) for node in target),
        )

    @property
    def deadline_ms(self) -> int:
        """When advance or has_lost_quorum is due if there is no event."""
        settings = self._settings
        idle_ms = self._idle_since_ms + settings.max_idle_interval_ms if settings.max_idle_interval_ms else NEVER_MS
        check_ms = self._check_quorum_ms if settings.check_quorum and self._voters.others else NEVER_MS
        parts = self._controlling, self._reassigning, self._voter_changing
        due_ms = self._flush_ms, idle_ms, check_ms, *(part.deadline_ms for part in parts)
        return min(*due_ms, *(parked.deadline_ms for parked in self._parked))

    def _append(self, records: Sequence[Record], is_control: bool = False) -> None:
        context = self._context
        data = encode_batch(records, context.log.end_offset, self._state.epoch, context.wall_ms, is_control)
        context.append(data)
        self._idle_since_ms = context.now_ms

    def _flush(self) -> None:
        if self._context.now_ms < self._flush_ms:
            return
        lingering, self._lingering, self._flush_ms = self._lingering, [], NEVER_MS
        end_offset = self._context.log.end_offset
        for request_id, records in lingering:
            end_offset += len(records)
            self._writes.append(_Write(request_id, end_offset))
        # One batch, and so one flush to disk, for all writes; each is acknowledged once the whole batch is committed.
        self._append([record for _, records in lingering for record in records])
        if self._settings.has("acknowledged-when-appended"):
            self._acknowledge_up_to(end_offset)
        if self._settings.has("uncommitted-records-visible"):
            self._context.metadata.advance(self._context.log, end_offset)

    def _advance_high_watermark(self) -> None:
        """KIP-595: the log end of a majority, once it covers a record of the leader's epoch (Raft, figure 8)."""
        log = self._context.log
        reached = reached_by_majority(self._log_ends(), self._commit_majority)
        start_offset = 0 if self._settings.has("earlier-epoch-commits-by-counting") else self._state.start_offset
        if reached <= max(start_offset, self.high_watermark):
            self._controlling.committed(self.high_watermark)
            return
        is_first = self.high_watermark < 0
        if is_first:
            self._note_first_high_watermark(reached)
        self.high_watermark = reached
        log.high_watermark = max(log.high_watermark, reached)
        self._context.metadata.advance(log, log.high_watermark)
        self._acknowledge_up_to(reached + 1 if self._settings.has("acknowledged-one-record-early") else reached)
        if is_first:
            self._controlling.begin()
        self._controlling.committed(reached)

    def _log_ends(self) -> list[int]:
        """Where the voters' logs end, as far as the leader knows."""
        settings, own_end = self._settings, self._context.log.end_offset
        if settings.has("leader-commits-alone"):
            return [own_end for _ in self._voters.ids]
        if settings.has("observer-counts-for-commit"):
            ends = [progress.end_offset for progress in self._replicas.values()]
        else:
            ends = [self._progress(key).end_offset for key in self._voters.other_keys]
        if settings.has("leader-not-counted-for-commit") and ends:
            return ends
        return [*self._own(own_end), *ends]

    def _own(self, value: int) -> list[int]:
        """What this node counts for in a majority: nothing if a record removes it from the voters."""
        return [value] if self._voters.is_listed else []

    def _progress_of_voters(self) -> dict[int, Progress]:
        """The progress of the other voters."""
        return {key.node_id: self._progress(key) for key in self._voters.other_keys}

    @property
    def _commit_majority(self) -> int:
        """How many logs must hold a record for it to be committed."""
        settings = self._settings
        if settings.has("one-follower-commits"):
            return min(2, self._voters.majority)
        if settings.has("quorum-shrinks-to-live-voters"):
            silent = self.silent_voters(self._context.now_ms - settings.fetch_timeout_ms // 2)
            return (len(self._voters.ids) - len(silent)) // 2 + 1
        return self._voters.majority

    def _acknowledge_up_to(self, end_offset: int) -> None:
        while self._writes and self._writes[0].end_offset <= end_offset:
            self._reply(self._writes.popleft().request_id, AlterResponse(ErrorCode.none))

    def _note_first_high_watermark(self, offset: int) -> None:
        self._context.note(
            f"High watermark set to LogOffsetMetadata(offset={offset}, metadata=Optional.empty) "
            f"for the first time for epoch {self._state.epoch}",
            "LeaderState",
        )

    def _take_parked(self) -> list[_ParkedFetch]:
        parked, self._parked = self._parked, []
        return parked

    def _answer_fetch(self, parked: _ParkedFetch) -> bool:
        """Respond if there is new data or a new high watermark, if a read waits for the follower to fetch again, or if
        the wait time is over; returns whether it did."""
        request, progress = parked.request, parked.progress
        data = self._context.log.read(request.fetch_offset, request.max_bytes)
        has_news = bool(data) or self.high_watermark > progress.sent_high_watermark
        if has_news or self._confirms_a_read(progress) or self._context.now_ms >= parked.deadline_ms:
            self._respond(parked, data)
            return True
        return False

    def _respond(self, parked: _ParkedFetch, data: bytes) -> None:
        context, progress = self._context, parked.progress
        progress.responded(parked.arrived.connection, self.high_watermark, context.now_ms, context.turn)
        if data and self._settings.has("sent-counts-as-replicated"):
            progress.end_offset = context.log.end_offset
        self._reply(parked.arrived.request_id, self._fetch_response(data))

    def _fetch_response(self, data: bytes) -> FetchResponse:
        is_uncommitted = self._settings.has("uncommitted-high-watermark-sent")
        high_watermark = self._context.log.end_offset if is_uncommitted else self.high_watermark
        return FetchResponse(ErrorCode.none, self._settings.node_id, self._state.epoch, high_watermark, data=data)

    def _confirms_a_read(self, progress: Progress) -> bool:
        """Whether a read waits for a response that the follower confirms by fetching again, and none is on its way."""
        return bool(self._reads) and self._reads[-1].turn > progress.sent_turn and not self._holds_lease()

    def _answer_reads(self) -> None:
        if not self._reads or self.high_watermark < 0:
            return
        is_proven = self._holds_lease() or self._settings.has("reads-unconfirmed")
        proven_turn = self._context.turn if is_proven else self._confirmed_turn()
        for read in self._reads:
            if read.turn <= proven_turn:
                self._answer_read(read)
        self._reads = [read for read in self._reads if read.turn > proven_turn]

    def _answer_read(self, read: _Read) -> None:
        values = self._context.metadata.read(read.resources)
        self._reply(read.request_id, ReadResponse(ErrorCode.none, values=values))

    def _holds_lease(self) -> bool:
        if self._settings.read_mode != "lease":
            return False
        others = (progress.confirmed_ms for progress in self._progress_of_voters().values())
        confirmed_ms = reached_by_majority([*self._own(self._context.now_ms), *others], self._voters.majority)
        return confirmed_ms + self._settings.read_lease_ms > self._context.now_ms

    def _confirmed_turn(self) -> int:
        """The latest turn at which a majority is known to have been in this epoch still."""
        others = (progress.confirmed_turn for progress in self._progress_of_voters().values())
        turns = [*self._own(self._context.turn), *others]
        majority = self._voters.majority
        if self._settings.has("read-confirmed-by-one-follower"):
            majority = min(2, majority)
        return reached_by_majority(turns, majority)

    def _count_for_check_quorum(self, replica: ReplicaKey) -> None:
        if replica not in self._voters.other_keys:
            return
        self._fetched_since.add(replica)
        is_one_enough = self._settings.has("check-quorum-counts-one-follower")
        if is_one_enough or len(self._own(0)) + len(self._fetched_since) >= self._voters.majority:
            self.reset_check_quorum()

    def reset_check_quorum(self) -> None:
        """Give a majority the whole timeout again, to fetch."""
        self._fetched_since.clear()
        self._check_quorum_ms = self._context.now_ms + self._settings.check_quorum_timeout_ms

    def _replica(self, request: FetchRequest) -> ReplicaKey:
        return self._settings.replica(request.replica_id, request.directory_id)

    def _progress(self, replica: ReplicaKey) -> Progress:
        progress = self._replicas.get(replica)
        if progress is None:
            progress = Progress()
            if replica.node_id >= 0:
                self._replicas[replica] = progress
        return progress

    def _describe_replica(self, replica: ReplicaKey) -> ReplicaProgress:
        context, (node, directory) = self._context, (replica.node_id, replica.directory_id)
        if replica == self._settings.key:
            return ReplicaProgress(node, context.log.end_offset, context.wall_ms, context.wall_ms, directory)
        progress = self._progress(replica)
        times_ms = (progress.last_fetch_ms, progress.last_caught_up_ms)
        fetched_ms, caught_up_ms = (-1 if at == NEVER_BEFORE_MS else at + context.wall_offset_ms for at in times_ms)
        return ReplicaProgress(node, progress.end_offset, fetched_ms, caught_up_ms, directory)

    def _reply(
        self, request_id: RequestId, response: FetchResponse | FetchSnapshotResponse | AlterResponse | ReadResponse
    ) -> None:
        self._context.emit(Reply(request_id, response))
