"""Leaders: append, count replicas, advance the high watermark, and change the ISR.

Contains the state that exists between becoming a leader and losing leadership; an instance is one such term. Requests
that name many partitions, and those that wait, are in serving.py.

A leader's own epoch begins at the end of its log when it becomes the leader. A follower joins the ISR once it has
everything up to the high watermark and up to that offset; it leaves the ISR if it has not had everything that the
leader had for replica.lag.time.max.ms. Sources: KIP-101, KIP-207 (ListOffsets of a new leader), KIP-320 (fencing),
KIP-497 and KIP-704 (AlterPartition), KIP-966 (the high watermark and min.insync.replicas).
"""

from __future__ import annotations

from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.reference.core.messages import EpochEnd
from nodes.reference.core.partitions.isr import InSync
from nodes.reference.core.partitions.messages import (
    EARLIEST,
    LATEST,
    NO_NODE,
    TO_HIGH_WATERMARK,
    Assignment,
    FetchPartition,
    FetchResult,
    IsrProposal,
    IsrResult,
    OffsetAnswer,
    OffsetQuestion,
)
from nodes.reference.core.partitions.producers import Producers
from nodes.reference.core.partitions.questions import (
    EpochAnswer,
    KnownEpoch,
    LargestEpoch,
    Question,
    answer,
    divergence,
)
from nodes.reference.core.partitions.replica import NEVER_BEFORE_MS, NEVER_MS, Replica
from nodes.wire.batches import BatchHead, heads, intact_length, timestamps_ms

ALL = -1
"""acks=all."""


@dataclass(slots=True)
class Progress:
    """A follower's progress within the leader's epoch, from its fetches."""

    end_offset: int = -1  # -1 before its first fetch
    last_caught_up_ms: int = NEVER_BEFORE_MS  # the latest time at which it had all that the leader had
    last_fetch_ms: int = NEVER_BEFORE_MS
    leader_end_at_fetch: int = 0
    broker_epoch: int = -1  # of the registration that it fetched with
    start_offset: int = -1  # of its log, as its last fetch says

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        """Record a fetch that does not diverge."""
        if offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif offset >= self.leader_end_at_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset, self.last_fetch_ms, self.leader_end_at_fetch = offset, now_ms, leader_end


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of a produced batch: an error, or its first offset and the end of what has to be committed."""

    error: ErrorCode = ErrorCode.none
    base_offset: int = -1
    end_offset: int = -1


class Leading:
    """One term of a leader, in one leader epoch."""

    def __init__(self, replica: Replica) -> None:
        self._replica, self._settings, self._context = replica, replica.settings, replica.context
        self.log, assignment = replica.log, replica.assignment
        self.log.begin_epoch(assignment.leader_epoch)
        self.epoch, self.start_offset = assignment.leader_epoch, self.log.end_offset
        self.isr = InSync.of(assignment)
        self._followers: dict[int, Progress] = {}
        self._producers = Producers()
        if not self._settings.has("sequences-forgotten-by-new-leader"):
            self._producers = Producers.of(self.log)
        self._joining: set[int] = set()  # the followers that may join the ISR, by their last fetch
        self._is_asked = False  # a proposal is on its way to the controller
        self._ask_ms = 0  # when to ask the controller at the earliest
        self._follow_replicas()
        self._advance()

    def assigned(self, assignment: Assignment) -> None:
        """The metadata changed within the leader's epoch."""
        self.isr.assigned(assignment)
        self._follow_replicas()
        self._advance()

    def _follow_replicas(self) -> None:
        """Count the replicas that the metadata names. Those in the ISR have the whole lag time to fetch first."""
        assignment, now_ms = self._replica.assignment, self._context.now_ms
        others = [node for node in assignment.replicas if node != self._settings.node_id]
        self._followers = {node: self._followers.get(node) or Progress() for node in others}
        for node in set(assignment.isr) & self._followers.keys():
            progress = self._followers[node]
            if progress.last_fetch_ms == NEVER_BEFORE_MS:
                progress.last_caught_up_ms = max(progress.last_caught_up_ms, now_ms)

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, or the number of replicas if that is smaller."""
        return min(self._replica.assignment.min_isr, len(self._replica.assignment.replicas))

    # Produce.

    def append(self, data: bytes, acks: int) -> Appended:
        """Append a client's batches, unless they are damaged, out of sequence, or there already."""
        if acks == ALL and len(self.isr.isr) < self.min_isr and not self._settings.has("min-isr-ignored"):
            return Appended(ErrorCode.not_enough_replicas)
        batches = list(heads(data))
        if not batches or intact_length(data) != len(data):
            return Appended(ErrorCode.corrupt_message)
        if any(head.is_control for head in batches):
            return Appended(ErrorCode.invalid_record)
        has_producer = any(head.producer_id >= 0 for head in batches)
        return self._known(batches) or self._append(data, has_producer)

    def _known(self, batches: list[BatchHead]) -> Appended | None:
        """The answer to a batch that is not appended; None if it is to be. Only single batches have a producer."""
        if len(batches) > 1:
            has_producer = any(head.producer_id >= 0 for head in batches)
            return Appended(ErrorCode.invalid_record) if has_producer else None
        checked = self._producers.check(batches[0])
        if self._settings.has("sequences-not-checked"):
            return None
        if checked.duplicate_of is not None:
            first, last = checked.duplicate_of
            return Appended(base_offset=first, end_offset=last + 1)
        return Appended(checked.error) if checked.error is not ErrorCode.none else None

    def _append(self, data: bytes, has_producer: bool) -> Appended:
        first = self.log.append_as_leader(data, self.epoch)
        self._context.changes += 1
        if has_producer:
            for _, head in self.log.batches(first):
                self._producers.appended(head)
        self._advance()
        return Appended(base_offset=first, end_offset=self.log.end_offset)

    def outcome(self, end_offset: int) -> ErrorCode | None:
        """The outcome of an append with acks=all; None while it is open."""
        if self._settings.has("acknowledged-by-leader-alone"):
            return ErrorCode.none
        if self._replica.high_watermark < end_offset:
            return None
        is_enough = len(self.isr.maximal) >= self.min_isr or self._settings.has("min-isr-ignored")
        return ErrorCode.none if is_enough else ErrorCode.not_enough_replicas_after_append

    # Fetch.

    def knows(self, node: int) -> bool:
        """Whether the metadata names it as a replica."""
        return node in self._followers

    def fetched(self, node: int, wanted: FetchPartition, broker_epoch: int) -> None:
        """Count a replica's fetch, unless its log diverges or its offset is not in this log."""
        progress, is_counted = self._followers[node], self._settings.has("diverged-fetch-counts")
        is_inside = self.log.start_offset <= wanted.offset <= self.log.end_offset
        if not is_counted and (not is_inside or self._divergence(wanted) is not None):
            return
        progress.fetched(wanted.offset, self.log.end_offset, self._context.now_ms)
        progress.broker_epoch, progress.start_offset = broker_epoch, wanted.start_offset
        if node not in self.isr.maximal and self._may_join(node):
            self._joining.add(node)
        self._advance()

    def read(self, wanted: FetchPartition, replica_id: int, max_bytes: int) -> FetchResult:
        """What a replica or a consumer gets now. Consumers see what is below the high watermark."""
        log, high_watermark = self.log, self._replica.high_watermark
        diverging = self._divergence(wanted)
        if diverging is not None:
            return FetchResult(ErrorCode.none, high_watermark, log.start_offset, diverging)
        if not log.start_offset <= wanted.offset <= log.end_offset:
            return FetchResult(ErrorCode.offset_out_of_range, high_watermark, log.start_offset)
        is_consumer = replica_id == NO_NODE and not self._settings.has("uncommitted-records-consumed")
        end = high_watermark if is_consumer else log.end_offset
        data = log.read(wanted.offset, min(wanted.max_bytes, max_bytes), end)
        return FetchResult(ErrorCode.none, high_watermark, log.start_offset, None, data)

    def _divergence(self, wanted: FetchPartition) -> EpochEnd | None:
        if self._settings.has("epochs-not-compared"):
            is_longer = wanted.offset > self.log.end_offset
            return EpochEnd(wanted.last_epoch, self.log.end_offset) if is_longer else None
        return divergence(self.log.epochs, self.log.end_offset, wanted.offset, wanted.last_epoch)

    # DeleteRecords.

    def delete_before(self, offset: int) -> int | ErrorCode:
        """Let the log start at this offset (KIP-107); returns the offset, or why not."""
        if self._replica.assignment.is_only_compacted:
            return ErrorCode.policy_violation
        wanted = self._replica.high_watermark if offset == TO_HIGH_WATERMARK else offset
        if not 0 <= wanted <= self._replica.high_watermark:
            return ErrorCode.offset_out_of_range
        self._replica.advance_start(wanted)
        self._context.changes += 1
        return wanted

    @property
    def low_watermark(self) -> int:
        """The start of the log that starts first, of all in-sync replicas; -1 before all have fetched."""
        in_sync = (self._followers[node].start_offset for node in self.isr.isr if node in self._followers)
        return min((self.log.start_offset, *in_sync))

    # ListOffsets and OffsetForLeaderEpoch.

    def answer(self, question: Question) -> EpochAnswer:
        """The answer to a question about epochs."""
        rule = self._settings.rule
        if rule.answers_known_epochs and isinstance(question, LargestEpoch):
            question = KnownEpoch(question.epoch)
        return answer(question, self.log.epochs, self.log.end_offset, rule.answers_by_letter)

    def offset(self, question: OffsetQuestion, replica_id: int) -> OffsetAnswer:
        """The answer to ListOffsets."""
        log, high_watermark = self.log, self._replica.high_watermark
        if question.timestamp_ms == EARLIEST:
            return OffsetAnswer(offset=log.start_offset, leader_epoch=log.epochs.at(log.start_offset))
        end = log.end_offset if replica_id != NO_NODE else high_watermark
        found = OffsetAnswer(offset=end, leader_epoch=log.epochs.latest)
        if question.timestamp_ms != LATEST:
            found = self._first_at(question.timestamp_ms, end)
        if replica_id == NO_NODE and high_watermark < self.start_offset and found.offset in (-1, end):
            return OffsetAnswer(ErrorCode.offset_not_available)  # KIP-207: what is committed may be more
        return found

    def _first_at(self, timestamp_ms: int, end: int) -> OffsetAnswer:
        """The first record before end with this time or a later one."""
        for data, head in self.log.batches(self.log.start_offset):
            if head.last_offset >= end:
                break
            if head.max_timestamp_ms < timestamp_ms:
                continue
            for offset, record_ms in timestamps_ms(data, head):
                if record_ms >= timestamp_ms and offset >= self.log.start_offset:
                    return OffsetAnswer(offset=offset, timestamp_ms=record_ms, leader_epoch=head.leader_epoch)
        return OffsetAnswer()

    # The high watermark and the ISR.

    def _advance(self) -> None:
        """Advance the high watermark to what all that may be in the ISR have."""
        settings, replica = self._settings, self._replica
        if settings.high_watermark_needs_min_isr and len(self.isr.isr) < self.min_isr:
            return
        others = self._counted() - {settings.node_id}
        ends = [self._followers[node].end_offset if node in self._followers else -1 for node in others]
        reached = min([self.log.end_offset, *ends])
        if reached > replica.high_watermark:
            replica.high_watermark = reached
            self._context.changes += 1

    def _counted(self) -> frozenset[int]:
        """The maximal ISR; two mutants count less."""
        proposed = frozenset(self.isr.proposed or self.isr.isr)
        if self._settings.has("pending-isr-not-counted"):
            return frozenset(self.isr.isr)
        if self._settings.has("shrinks-before-confirmed"):
            return self.isr.maximal & proposed
        return self.isr.maximal

    @property
    def deadline_ms(self) -> int:
        """When a follower may have to leave the ISR, or the controller is asked again."""
        if self.isr.is_waiting or self._is_asked:
            return NEVER_MS
        if self.isr.is_pending:
            return self._ask_ms
        if self._joining or self.isr.is_recovering:
            return self._ask_ms
        lag_ms = self._settings.replica_lag_time_max_ms
        late = (each.last_caught_up_ms + lag_ms + 1 for each in self._lagging().values())
        return max(self._ask_ms, min(late, default=NEVER_MS))

    def _lagging(self) -> dict[int, Progress]:
        """The followers in the ISR that do not have all that the leader has."""
        end = self.log.end_offset
        return {n: each for n, each in self._followers.items() if n in self.isr.isr and each.end_offset != end}

    def proposal(self) -> IsrProposal | None:
        """The proposal that is to be sent to the controller now; None if there is none."""
        if self._is_asked or self._context.now_ms < self._ask_ms:
            return None
        if not self.isr.is_pending:
            wanted = self._wanted_isr()
            if wanted is None:
                return None
            self.isr.propose(wanted)
            self._advance()
        if self.isr.is_waiting or self.isr.proposed is None:
            return None
        self._is_asked = True
        with_epochs = tuple((node, self._broker_epoch(node)) for node in self.isr.proposed)
        return IsrProposal(self._replica.partition, self.epoch, self.isr.partition_epoch, with_epochs)

    def _wanted_isr(self) -> tuple[int, ...] | None:
        """The ISR that the leader wants; None if it is what it is. Recovery comes first, and joining before leaving."""
        isr = self.isr.isr
        if self.isr.is_recovering:
            return isr
        joining = tuple(node for node in sorted(self._joining & self._followers.keys()) if node not in isr)
        self._joining.clear()
        if joining:
            return isr + joining
        oldest_ms = self._context.now_ms - self._settings.replica_lag_time_max_ms
        late = {node for node, each in self._lagging().items() if each.last_caught_up_ms < oldest_ms}
        return tuple(node for node in isr if node not in late) if late else None

    def _may_join(self, node: int) -> bool:
        reached = self._replica.high_watermark
        if not self._settings.has("joins-before-epoch-start"):
            reached = max(reached, self.start_offset)
        return self._followers[node].end_offset >= reached

    def _broker_epoch(self, node: int) -> int:
        return self._context.broker_epoch if node == self._settings.node_id else self._followers[node].broker_epoch

    def proposal_ended(self, result: IsrResult | None) -> None:
        """The controller decided; None if it did not answer, and may have decided all the same."""
        self._is_asked = False
        is_repeated = result is None or self.isr.ended(result, self.epoch)
        if is_repeated or (result is not None and result.error is not ErrorCode.none):
            self._ask_ms = self._context.now_ms + self._settings.controller_backoff_ms
        self._advance()
