"""Leaders: add, remove and update one voter at a time, as Kafka does (KIP-853).

A change is one Voters record, in effect as soon as it is appended. The leader writes it only if it has committed a
record of its own epoch, which fences the changes of earlier leaders, if the record before is committed, and if no
other request is pending. Otherwise it refuses with REQUEST_TIMED_OUT, after which a client tries again. A replica that
is to be added must have what the leader has; it is waited for as long as for any request to a peer.

A leader that a committed record removes steps down. Until then it leads, and does not count itself.

Contains the checks, when records are written, and the responses. Sources: KIP-853, "Voter changes"; Kafka's
AddVoterHandler, RemoveVoterHandler and UpdateVoterHandler for the order of the checks and the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.reference.core.context import Context
from nodes.reference.core.events import Reply, RequestId
from nodes.reference.core.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    ReplicaKey,
    UpdateVoterRequest,
    VoterNode,
    VoterRequest,
    VoterResponse,
)
from nodes.reference.core.records.control import kraft_version_record, voters_record
from nodes.reference.core.roles.progress import Progress
from nodes.reference.core.roles.states import Leader
from nodes.reference.core.settings import NEVER_MS
from nodes.wire.batches import Record

Append = Callable[[Sequence[Record], bool], None]
"""Append these records, control records or not, as one batch."""

_NOT_COMMITTED = "The change is not committed yet, and may be later."
_REPLACED = "The leader was replaced before the change was committed."

_Refusal = tuple[ErrorCode, str]


@dataclass(slots=True)
class _Pending:
    """A request without a response. offset is that of its record; None while the new voter has to catch up."""

    request_id: RequestId
    request: AddVoterRequest | RemoveVoterRequest
    deadline_ms: int
    offset: int | None = None


class VoterChanging:
    """The changes of single voters of one term."""

    def __init__(self, context: Context, state: Leader, append: Append) -> None:
        self._context, self._settings, self._state, self._append = context, context.settings, state, append
        self._voters = context.voters
        self._pending: _Pending | None = None
        self._high_watermark = -1  # of this epoch, as of the latest event
        self.steps_down = False

    @property
    def deadline_ms(self) -> int:
        """When advance is due if there is no event."""
        return NEVER_MS if self._pending is None else self._pending.deadline_ms

    def first_records(self) -> list[Record]:
        """The first leader of a cluster writes the voters that its nodes were formatted with."""
        if not self._settings.has_directories or not self._voters.is_configured:
            return []
        return [kraft_version_record(), voters_record(self._nodes)]

    def handle(self, request_id: RequestId, request: VoterRequest) -> None:
        """Refuse a request, or begin the change; the response follows once it is committed, or overdue."""
        refusal = self._refusal(request)
        if refusal is not None:
            self._reply(request_id, *refusal)
        elif isinstance(request, UpdateVoterRequest):
            self._update(request.voter)
            self._reply(request_id, ErrorCode.none)
        else:
            # Kafka waits for its own request timeout, however long the client would wait.
            timeout_ms = min(request.timeout_ms, self._settings.request_timeout_ms)
            self._pending = _Pending(request_id, request, self._context.now_ms + timeout_ms)

    def advance(self, high_watermark: int, replicas: Mapping[ReplicaKey, Progress]) -> bool:
        """Write the pending change if its time has come, and respond; returns whether a record was written."""
        self._high_watermark = high_watermark
        if not self._settings.has_directories:
            return False
        is_written = self._pending is not None and self._write(self._pending, replicas)
        self._respond()
        self.steps_down = self._voters.may_change(high_watermark) and not self._voters.is_listed
        return is_written

    def end(self) -> None:
        """Leadership ends: whether a pending change will be committed is unknown."""
        if self._pending is not None:
            self._reply(self._pending.request_id, ErrorCode.not_leader_or_follower, _REPLACED)
            self._pending = None

    @property
    def _nodes(self) -> tuple[VoterNode, ...]:
        return self._voters.last.assignment.nodes

    def _refusal(self, request: VoterRequest) -> _Refusal | None:
        settings = self._settings
        if request.cluster_id not in (None, settings.cluster_id):
            return ErrorCode.inconsistent_cluster_id, f"The cluster's id is {settings.cluster_id}."
        if not settings.has_directories:
            return ErrorCode.unsupported_version, f"Voters do not change one at a time ({settings.voter_changes})."
        if isinstance(request, UpdateVoterRequest) and request.epoch != self._state.epoch:
            is_earlier = request.epoch < self._state.epoch
            error = ErrorCode.fenced_leader_epoch if is_earlier else ErrorCode.unknown_leader_epoch
            return error, f"The leader's epoch is {self._state.epoch}."
        return self._not_now() or self._not_possible(request)

    def _not_now(self) -> _Refusal | None:
        if self._pending is not None:
            return ErrorCode.request_timed_out, "Another change of the voters is pending."
        if self._voters.may_change(self._high_watermark):
            return None
        waited_for = "the latest voters are" if self._high_watermark >= 0 else "a record of the leader's epoch is"
        return ErrorCode.request_timed_out, f"Expected that {waited_for} committed."

    def _not_possible(self, request: VoterRequest) -> _Refusal | None:
        voters, keys = self._voters.ids, self._voters.last.assignment.keys
        match request:
            case AddVoterRequest(voter=VoterNode(key=key)):
                if key.node_id < 0 or key.directory_id is None:
                    return ErrorCode.invalid_request, "Expected the id of a node and of its directory."
                if key.node_id in voters:
                    return ErrorCode.duplicate_voter, f"Node {key.node_id} is one of the voters {list(voters)}."
            case RemoveVoterRequest(voter=key):
                if key not in keys:
                    return ErrorCode.voter_not_found, f"{_text(key)} is none of the voters {list(voters)}."
                if len(keys) == 1:
                    return ErrorCode.voter_not_found, f"{_text(key)} is the only voter."
            case UpdateVoterRequest(voter=VoterNode(key=key)):
                if key not in keys:
                    return ErrorCode.voter_not_found, f"{_text(key)} is none of the voters {list(voters)}."
        return None

    def _write(self, pending: _Pending, replicas: Mapping[ReplicaKey, Progress]) -> bool:
        """Append the record of a pending change, unless it is there already or the new voter lags."""
        if pending.offset is not None:
            return False
        request = pending.request
        if isinstance(request, RemoveVoterRequest):
            nodes = [node for node in self._nodes if node.key != request.voter]
        elif self._has_caught_up(replicas.get(request.voter.key)):
            nodes = [*self._nodes, request.voter]
        else:
            return False
        self._append_voters(nodes)
        pending.offset = self._voters.last.offset
        return True

    def _has_caught_up(self, progress: Progress | None) -> bool:
        """Whether a replica gets what the leader has in less than an election timeout (Raft's thesis, 4.2.1)."""
        since_ms = self._context.now_ms - self._settings.election_timeout_ms
        return progress is not None and progress.last_caught_up_ms >= since_ms

    def _update(self, voter: VoterNode) -> None:
        nodes = [voter if node.key == voter.key else node for node in self._nodes]
        if tuple(nodes) != self._nodes:
            self._append_voters(nodes)

    def _append_voters(self, nodes: Sequence[VoterNode]) -> None:
        ordered = tuple(sorted(nodes, key=lambda node: node.key.node_id))
        self._append([voters_record(ordered)], True)
        self._context.note(f"Voters are {list(self._voters.last.assignment.current)} in epoch {self._state.epoch}")

    def _respond(self) -> None:
        pending = self._pending
        if pending is None:
            return
        is_appended = pending.offset is not None
        if is_appended and (self._voters.is_committed or not _waits_for_commit(pending.request)):
            self._reply(pending.request_id, ErrorCode.none)
        elif self._context.now_ms < pending.deadline_ms:
            return
        else:
            reason = _NOT_COMMITTED if is_appended else "The new voter does not have what the leader has."
            self._reply(pending.request_id, ErrorCode.request_timed_out, reason)
        self._pending = None

    def _reply(self, request_id: RequestId, error: ErrorCode, reason: str | None = None) -> None:
        response = VoterResponse(error, self._settings.node_id, self._state.epoch, reason)
        self._context.emit(Reply(request_id, response))


def _text(key: ReplicaKey) -> str:
    return f"node {key.node_id} with the directory {key.directory_id}"


def _waits_for_commit(request: AddVoterRequest | RemoveVoterRequest) -> bool:
    return isinstance(request, RemoveVoterRequest) or request.ack_when_committed
