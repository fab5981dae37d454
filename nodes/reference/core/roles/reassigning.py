"""Leaders: accept reassignments of the quorum's voters, and carry them out by changes of one voter at a time.

The leader changes the voters only once the assignment before is committed, and a record of its own epoch. A request
changes only the target, so it is appended at once.

Contains when records are written, and the responses. Which change comes next is decided by core.reassignment.
Source: KIP-642, "AlterPartitionReassignments Request Handling" and "Reassignment Algorithm".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.reference.core.context import Context
from nodes.reference.core.events import Assignment, Reply, RequestId
from nodes.reference.core.messages import FetchRequest, ReassignRequest, ReassignResponse
from nodes.reference.core.reassignment import STEP_DOWN, next_step
from nodes.reference.core.records.control import assignment_record
from nodes.reference.core.roles.progress import Progress
from nodes.reference.core.roles.states import Leader
from nodes.reference.core.settings import NEVER_MS
from nodes.wire.batches import Record

Append = Callable[[Sequence[Record], bool], None]
"""Append these records, control records or not, as one batch."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request whose target is committed once the high watermark is above offset."""

    request_id: RequestId
    offset: int
    deadline_ms: int


class Reassigning:
    """The reassignments of one term."""

    def __init__(self, context: Context, state: Leader, append: Append) -> None:
        self._context, self._settings, self._voters = context, context.settings, context.voters
        self._state, self._append = state, append
        self._waiting: list[_Waiting] = []
        self._nominated: dict[int, int] = {}  # when an observer last said that it has caught up
        self._informed: set[int] = set()  # nodes that were told that they no longer vote
        self.steps_down = False

    @property
    def deadline_ms(self) -> int:
        """When advance is due if there is no event."""
        return min((each.deadline_ms for each in self._waiting), default=NEVER_MS)

    def begin(self) -> None:
        """The first leader of a cluster writes the configured voters to the log, which no longer needs them."""
        is_first = self._settings.reassigns_voters and self._context.log.end_offset == 0
        if is_first and not self._settings.has("configured-voters-not-written"):
            self._write(self._voters.last.assignment)

    def handle(self, request_id: RequestId, request: ReassignRequest) -> None:
        """Write the target unless it is that of the latest assignment; respond once it is committed."""
        error = self._error(request)
        if error is not None:
            self._context.emit(Reply(request_id, error))
            return
        last = self._voters.last.assignment
        target = None if request.voters is None else tuple(sorted(request.voters))
        is_reached = last.target is None and target == last.current
        if target != last.target and not is_reached:
            self._write(Assignment(last.current, target))
        offset = self._voters.target_since
        if offset < self._context.log.high_watermark or self._settings.has("reassignment-acknowledged-early"):
            self._context.emit(Reply(request_id, ReassignResponse(ErrorCode.none)))
        else:
            self._waiting.append(_Waiting(request_id, offset, self._context.now_ms + request.timeout_ms))

    def nominate(self, observer: int) -> None:
        """An observer says that it has caught up; it may be added for an election timeout."""
        self._nominated[observer] = self._context.now_ms

    def _error(self, request: ReassignRequest) -> ReassignResponse | None:
        if not self._settings.reassigns_voters:
            reason = f"The voters of this quorum are not reassigned (voter_changes={self._settings.voter_changes})."
            return ReassignResponse(ErrorCode.invalid_request, reason)
        voters = request.voters
        if voters is not None and (not voters or len(set(voters)) < len(voters) or min(voters) < 0):
            reason = f"Expected at least one voter, each once, found {list(voters)}."
            return ReassignResponse(ErrorCode.invalid_replica_assignment, reason)
        return None

    def advance(self, high_watermark: int, replicas: Mapping[int, Progress]) -> bool:
        """Respond to what is committed, and take the next step if it is due; returns whether a step was taken."""
        self._respond()
        if not self._may_step(high_watermark):
            return False
        is_in_order = self._settings.promotion == "in-order"
        step = next_step(self._voters.last.assignment, self._settings.node_id, self._caught_up(replicas), is_in_order)
        self.steps_down = step is STEP_DOWN and high_watermark >= 0
        if isinstance(step, Assignment):
            self._write(step)
        return isinstance(step, Assignment)

    def is_news_of_removal(self, request: FetchRequest) -> bool:
        """Whether a fetching node no longer votes and does not know it; it is told once (KIP-642, NOT_FOLLOWER)."""
        removed_at = self._voters.removal_of(request.replica_id) if self._settings.reassigns_voters else None
        if removed_at is None or request.replica_id in self._informed:
            return False
        if not request.fetch_offset <= removed_at < self._context.log.high_watermark:
            return False
        self._informed.add(request.replica_id)
        return True

    def end(self) -> None:
        """Leadership ends: whether what is not committed will be is unknown."""
        for each in self._waiting:
            self._reply_unknown(each)
        self._waiting.clear()

    def _may_step(self, high_watermark: int) -> bool:
        return self._settings.reassigns_voters and self._voters.may_change(high_watermark)

    def _caught_up(self, replicas: Mapping[int, Progress]) -> set[int]:
        """The nodes that replicate what the leader has in less than an election timeout (Raft's thesis, 4.2.1).

        With observer-based promotion, those that have nominated themselves.
        """
        since_ms = self._context.now_ms - self._settings.election_timeout_ms
        if self._settings.promotion == "observer-based":
            return {node for node, nominated_ms in self._nominated.items() if nominated_ms >= since_ms}
        return {node for node, progress in replicas.items() if progress.last_caught_up_ms >= since_ms}

    def _respond(self) -> None:
        """Respond to requests whose target is committed, or that waited for too long."""
        now_ms, waiting, self._waiting = self._context.now_ms, self._waiting, []
        for each in waiting:
            if each.offset < self._context.log.high_watermark:
                self._context.emit(Reply(each.request_id, ReassignResponse(ErrorCode.none)))
            elif now_ms >= each.deadline_ms:
                self._reply_unknown(each)
            else:
                self._waiting.append(each)

    def _reply_unknown(self, waiting: _Waiting) -> None:
        reason = "The reassignment is not committed yet, and may be later."
        self._context.emit(Reply(waiting.request_id, ReassignResponse(ErrorCode.request_timed_out, reason)))

    def _write(self, assignment: Assignment) -> None:
        self._append([assignment_record(self._settings.cluster_id, assignment)], True)
        target = "none" if assignment.target is None else list(assignment.target)
        self._context.note(f"Voters are {list(assignment.current)}, target {target}, in epoch {self._state.epoch}")
