"""Followers: truncate by a rule, fetch, append, and take the leader's high watermark.

    asking ─► fetching ─► …          by the rule's questions (truncation.RULES), none of them on-fetch
    fetching ─► measuring ─► fetching   the offset is not in the leader's log: where does that begin and end?
    fetching ─► failed               a batch does not continue the log (KIP-279, Scenario 1, n < 20)
    fetching ─► fenced               the leader has a later epoch; the metadata will name it

Contains the state that exists while one leader is followed in one epoch. Requests are in fetching.py. A follower that
failed or is fenced does nothing until the metadata changes its leader or its epoch. Sources: KIP-101, KIP-279, KIP-320,
KAFKA-10435.
"""

from __future__ import annotations

from enum import Enum

from kio.schema.errors import ErrorCode

from nodes.reference.core.messages import EpochEnd
from nodes.reference.core.partitions.epochs import NO_EPOCH
from nodes.reference.core.partitions.events import Note
from nodes.reference.core.partitions.messages import (
    EARLIEST,
    LATEST,
    EpochQuestion,
    FetchPartition,
    FetchResult,
    OffsetAnswer,
    OffsetQuestion,
)
from nodes.reference.core.partitions.questions import EpochAnswer, Question, size_bits
from nodes.reference.core.partitions.replica import NEVER_MS, Replica
from nodes.reference.core.partitions.truncation import Move, step_back, to_high_watermark
from nodes.wire.batches import heads, intact_length


class Phase(Enum):
    """What a follower does now."""

    ASKING = "asking"
    MEASURING = "measuring"
    FETCHING = "fetching"
    FAILED = "failed"
    FENCED = "fenced"


class Following:
    """One replica that follows one leader in one epoch.

    rounds counts the answers by which it truncated or might have, question_bits the size of what it asked.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica, self._settings, self._context = replica, replica.settings, replica.context
        self.leader, self.epoch = replica.assignment.leader, replica.assignment.leader_epoch
        self.phase = Phase.ASKING
        self.failure: str | None = None
        self.rounds = self.question_bits = 0
        self._question: Question | None = None
        self._time_asked = LATEST
        self._ready_ms = self._context.now_ms
        self._fetch_from = -1  # a mutant's: where it should have truncated to
        if self._settings.has("follower-never-truncates"):
            self._move(Move())
        else:
            self._move(self._settings.rule.begin(replica.follower_log))

    @property
    def ready_ms(self) -> int:
        """When it may send its next request."""
        return NEVER_MS if self.phase in (Phase.FAILED, Phase.FENCED) else self._ready_ms

    @property
    def is_settled(self) -> bool:
        """Whether it has truncated as its rule says."""
        return self.phase is Phase.FETCHING

    def _move(self, move: Move) -> None:
        """Truncate, then ask or fetch."""
        if move.truncate_to is not None:
            self._replica.truncate(move.truncate_to)
            if self._settings.has("fetches-from-leaders-offset"):
                self._fetch_from = move.truncate_to
        self._question = move.question
        self.phase = Phase.FETCHING if move.question is None else Phase.ASKING
        self.question_bits += 0 if move.question is None else size_bits(move.question)

    # Questions about epochs.

    def epoch_question(self) -> EpochQuestion:
        """What it asks its leader while it is ASKING."""
        assert self._question is not None
        return EpochQuestion(self._question, self.epoch)

    def epoch_answered(self, answer: EpochAnswer) -> None:
        """Take the leader's answer, or its error."""
        assert self._question is not None
        if answer.error is ErrorCode.none:
            self.rounds += 1
            move = self._settings.rule.answered(self._replica.follower_log, self._question, answer)
            self._note_truncation(move, answer.end)
            self._move(self._unless_mutant(move, answer.end_offset))
        elif answer.error is ErrorCode.fenced_leader_epoch:
            self.phase = Phase.FENCED
        else:
            self.epoch_refused()

    def epoch_refused(self) -> None:
        """The question got an error, or no answer."""
        if self._settings.truncation_error == "retry":
            self.back_off()
            return
        replica = self._replica
        watermark = replica.high_watermark
        self._note(f"Truncating partition {replica.partition} to high watermark {watermark}: its leader did not answer")
        self._move(to_high_watermark(replica.follower_log))

    # Questions about offsets.

    def offset_question(self) -> OffsetQuestion:
        """What it asks its leader while it is MEASURING: first for the end of its log, then for the start."""
        return OffsetQuestion(self._time_asked, self.epoch)

    def offset_answered(self, answer: OffsetAnswer) -> None:
        """Truncate to the end of the leader's log if that is shorter; begin anew if it begins later."""
        replica, log = self._replica, self._replica.log
        if answer.error is not ErrorCode.none:
            self._failed_at(answer.error)
        elif self._time_asked == LATEST and answer.offset >= log.end_offset:
            self._time_asked = EARLIEST
        else:
            if self._time_asked == LATEST:
                replica.truncate(answer.offset)
            elif answer.offset > log.end_offset:
                replica.start_at(answer.offset)
            else:
                self.back_off()  # neither: the leader's log has changed meanwhile
            self.phase = Phase.FETCHING

    # Fetches.

    def fetch(self) -> FetchPartition:
        """What it fetches while it is FETCHING."""
        log, sends_epoch = self._replica.log, self._settings.rule.sends_last_epoch
        last_epoch = (
            log.epochs.latest if sends_epoch and not self._settings.has("follower-never-truncates") else NO_EPOCH
        )
        offset = max(log.end_offset, self._fetch_from)
        return FetchPartition(offset, self.epoch, last_epoch, self._settings.fetch_partition_bytes, log.start_offset)

    def fetched(self, result: FetchResult) -> None:
        """Take the leader's response to a fetch."""
        if result.error is not ErrorCode.none:
            self._failed_at(result.error)
        elif result.diverging is not None:
            self._truncate_by(result.diverging)
        elif self._append(result.data, result.start_offset):
            self._replica.advance_start(result.start_offset)
            self._take_high_watermark(result.high_watermark)

    def _truncate_by(self, leader: EpochEnd) -> None:
        """Truncate by a diverging epoch, as far as it says; the next fetch tells whether that was enough."""
        self.rounds += 1
        if leader.epoch == NO_EPOCH:
            self._failed_at(ErrorCode.unknown_leader_epoch)
            return
        before = self._replica.follower_log
        move = self._unless_mutant(step_back(before, leader), leader.end_offset)
        self._note_truncation(move, leader)
        self._move(Move(move.truncate_to))
        if self._replica.follower_log == before:
            self.back_off()  # it was no news, and would be none again

    def _unless_mutant(self, move: Move, leaders_offset: int) -> Move:
        """The move, or that of a mutant which looks at the leader's offset alone."""
        if move.question is None and self._settings.has("leaders-offset-taken"):
            return Move(leaders_offset)
        return move

    def _append(self, data: bytes, leaders_start: int) -> bool:
        """Append intact batches that continue the log; one that does not is a failure that no retry repairs."""
        log = self._replica.log
        intact = data[: intact_length(data)]
        if data and not intact:
            self.back_off()  # damaged on the way
            return False
        self._begin_before_start(intact, leaders_start)
        end_offset, start = log.end_offset, 0
        for head in heads(intact):
            if head.base_offset < end_offset:
                if not self._settings.has("failed-append-skipped"):
                    self._fail(head.base_offset, end_offset)
                    return False
                start = head.end
            end_offset = max(end_offset, head.last_offset + 1)
        if intact[start:]:
            log.append_as_follower(intact[start:])
        elif intact:
            self._fetch_from = end_offset  # the mutant goes on after the batch
        return True

    def _begin_before_start(self, data: bytes, leaders_start: int) -> None:
        """Begin anew with a batch inside which either log starts, if this log has nothing after that."""
        log, first = self._replica.log, next(heads(data), None)
        has_nothing = log.end_offset <= max(leaders_start, log.start_offset)
        if first is not None and has_nothing and first.base_offset < log.end_offset <= first.last_offset:
            self._replica.start_at(first.base_offset)

    def _fail(self, base_offset: int, end_offset: int) -> None:
        partition = self._replica.partition
        self.phase = Phase.FAILED
        self.failure = (
            f"Unexpected offset in append to {partition}: expected {end_offset}, got a batch at {base_offset}"
        )
        where = f"for partition {partition} at offset {end_offset}"
        self._note(f"Unexpected error occurred while processing data {where}: {self.failure}", "ERROR")
        self._note(f"Partition {partition} marked as failed", "WARN")

    def _note_truncation(self, move: Move, leader: EpochEnd) -> None:
        """An answer and what follows from it, in Kafka's words; completed: the follower asks nothing more."""
        partition, log = self._replica.partition, self._replica.log
        offset = log.end_offset if move.truncate_to is None else move.truncate_to
        state = f"TruncationState(offset={offset}, completed={str(move.question is None).lower()})"
        end = f"EpochEndOffset(leaderEpoch={leader.epoch}, endOffset={leader.end_offset})"
        self._note(f"Truncating partition {partition} with {state} due to leader epoch and offset {end}")

    def _note(self, text: str, level: str = "INFO") -> None:
        fetcher = f"[ReplicaFetcher replicaId={self._settings.node_id}, leaderId={self.leader}, fetcherId=0]"
        self._context.emit(Note(f"{fetcher} {text}", "ReplicaFetcherThread", level))

    def _take_high_watermark(self, high_watermark: int) -> None:
        replica = self._replica
        bounded = min(high_watermark, replica.log.end_offset)
        if self._settings.has("follower-high-watermark-beyond-log"):
            bounded = high_watermark
        replica.high_watermark = max(bounded, replica.log.start_offset)

    def _failed_at(self, error: ErrorCode) -> None:
        """An error of the leader: find out where its log is, wait for the metadata, or ask again later."""
        if error is ErrorCode.offset_out_of_range:
            self.phase, self._time_asked = Phase.MEASURING, LATEST
        elif error is ErrorCode.fenced_leader_epoch:
            self.phase = Phase.FENCED
        else:
            self.back_off()

    def back_off(self) -> None:
        """Send nothing for replica.fetch.backoff.ms."""
        self._ready_ms = self._context.now_ms + self._settings.fetch_backoff_ms
