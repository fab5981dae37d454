"""Pairs of logs as real changes of leaders leave them, and the plain oracle of what they have in common.

    history = Unclean(2)                # or Clean(2): only an in-sync replica leads
    history.lead(0), history.write(3)   # replica 0 leads epoch 0 and appends a batch of three records
    history.copy(1, 5)                  # replica 1 truncates to what it has in common, and copies up to five batches

Replicas truncate by the oracle, so a history does not depend on any rule.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import strategies as st

from nodes.reference.core.messages import EpochEnd
from nodes.reference.core.partitions.memory_log import MemoryLog
from nodes.reference.core.partitions.questions import EpochAnswer, Question, answer, divergence, size_bits
from nodes.reference.core.partitions.truncation import RULES, FollowerLog, Move, Truncation, step_back
from nodes.wire.batches import Record, encode_batch

ROUNDS_MAX = 50
EVERYTHING = 2**30


class Entry(NamedTuple):
    """One record, as far as logs are compared."""

    offset: int
    epoch: int


def entries(log: MemoryLog) -> list[Entry]:
    """Every record of a log."""
    return [
        Entry(offset, head.leader_epoch)
        for _, head in log.batches(0)
        for offset in range(head.base_offset, head.last_offset + 1)
    ]


def common_end(one: MemoryLog, other: MemoryLog) -> int:
    """The end of the largest prefix in which both logs have the same epoch at each offset."""
    end = min(one.start_offset, other.start_offset)
    for mine, yours in zip(entries(one), entries(other), strict=False):
        if mine != yours:
            break
        end = mine.offset + 1
    return end


def batch(count: int) -> bytes:
    """A client's batch."""
    return encode_batch([Record(None, b"")] * count, 0, -1, 0)


class Unclean:
    """Any replica may lead, and each leader is alone in sync, so its high watermark is the end of its log."""

    def __init__(self, replicas: int) -> None:
        self.logs = [MemoryLog() for _ in range(replicas)]
        self.high_watermarks = [0] * replicas
        self.leader, self.epoch = 0, -1
        self.lead(0)

    def lead(self, replica: int) -> None:
        """A replica becomes the leader of the next epoch."""
        self.leader, self.epoch = replica % len(self.logs), self.epoch + 1
        self.logs[self.leader].begin_epoch(self.epoch)

    def write(self, count: int) -> None:
        """The leader appends one batch."""
        self.logs[self.leader].append_as_leader(batch(count), self.epoch)
        self._commit()

    def copy(self, replica: int, batches: int) -> None:
        """A follower truncates as far as it has to, and copies batches."""
        follower, leader = replica % len(self.logs), self.logs[self.leader]
        if follower == self.leader:
            return
        log = self.logs[follower]
        log.truncate(common_end(log, leader))
        for data, _ in list(leader.batches(log.end_offset))[:batches]:
            log.append_as_follower(data)
        self.high_watermarks[follower] = min(self.high_watermarks[self.leader], log.end_offset)
        self._copied(follower)

    def follower_log(self, replica: int) -> FollowerLog:
        """What a rule sees of a replica."""
        log, high_watermark = self.logs[replica], self.high_watermarks[replica]
        return FollowerLog(log.epochs, log.end_offset, high_watermark)

    def _commit(self) -> None:
        self.high_watermarks[self.leader] = self.logs[self.leader].end_offset

    def _copied(self, follower: int) -> None:
        """A follower has copied."""


class Clean(Unclean):
    """Only in-sync replicas lead. Replica 0 is the preferred leader; after a preferred election the ISR stays."""

    def __init__(self, replicas: int) -> None:
        self.isr = set(range(replicas))
        self.copied_to: dict[int, int] = {}  # by follower: the end of its log, as the leader of this epoch knows it
        super().__init__(replicas)

    def lead(self, replica: int) -> None:
        """A replica becomes the leader of the next epoch, and does not know yet what others have."""
        self.copied_to = {}
        super().lead(replica)

    def prefer(self) -> None:
        """A preferred election, if it is needed and possible."""
        if self.leader != 0 and 0 in self.isr:
            self.lead(0)

    def kill(self, replica: int) -> None:
        """A replica restarts: it leaves the ISR, and another one leads if it led. The last one in the ISR stays."""
        replica %= len(self.logs)
        if self.isr == {replica}:
            return
        self.isr.discard(replica)
        self.copied_to.pop(replica, None)
        if replica == self.leader:
            self.lead(min(self.isr))
        self._commit()

    def _commit(self) -> None:
        ends = [self.copied_to.get(replica, 0) for replica in self.isr - {self.leader}]
        committed = min([self.logs[self.leader].end_offset, *ends])
        self.high_watermarks[self.leader] = max(committed, self.high_watermarks[self.leader])

    def _copied(self, follower: int) -> None:
        log, leader = self.logs[follower], self.logs[self.leader]
        self.copied_to[follower] = log.end_offset
        began = next((each.offset for each in leader.epochs.starts if each.epoch == self.epoch), leader.end_offset)
        if log.end_offset >= max(self.high_watermarks[self.leader], began):
            self.isr.add(follower)
        self._commit()


REPLICA = st.integers(0, 2)
_STEP = {
    "lead": st.tuples(st.just("lead"), REPLICA),
    "write": st.tuples(st.just("write"), st.integers(1, 5)),
    "copy": st.tuples(st.just("copy"), REPLICA, st.integers(0, 3)),
    "prefer": st.tuples(st.just("prefer")),
    "kill": st.tuples(st.just("kill"), REPLICA),
}


@st.composite
def unclean_histories(draw: st.DrawFn, most: int = 25) -> Unclean:
    """Histories of two or three replicas with any leaders."""
    history = Unclean(draw(st.integers(2, 3)))
    for name, *arguments in draw(st.lists(st.one_of(_STEP["lead"], _STEP["write"], _STEP["copy"]), max_size=most)):
        getattr(history, name)(*arguments)
    return history


@st.composite
def clean_histories(draw: st.DrawFn, most: int = 25) -> Clean:
    """Histories of two or three replicas in which only in-sync replicas lead."""
    history = Clean(draw(st.integers(2, 3)))
    kinds = [_STEP[name] for name in ("write", "copy", "prefer", "kill")]
    for name, *arguments in draw(st.lists(st.one_of(kinds), max_size=most)):
        getattr(history, name)(*arguments)
    return history


@dataclass
class Outcome:
    """What became of a follower's log: its end after the truncation, what it asked, and whether it could copy on."""

    log: MemoryLog
    truncated_to: int
    asked: list[Question]
    rounds: int
    is_stuck: bool = False

    @property
    def bits(self) -> int:
        """What all questions added to the requests."""
        return sum(map(size_bits, self.asked))


def reconcile(truncation: Truncation, follower: FollowerLog, log: MemoryLog, leader: MemoryLog) -> Outcome:
    """Let a follower truncate its log by a rule, then copy all of the leader's log; neither given log changes."""
    rule, outcome = RULES[truncation], Outcome(copy.deepcopy(log), log.end_offset, [], 0)
    own, move = outcome.log, rule.begin(follower)
    _carry_out(own, move)
    while move.question is not None:
        outcome.asked.append(move.question)
        replied = answer(move.question, leader.epochs, leader.end_offset, rule.answers_by_letter)
        move = rule.answered(_now(own, follower), move.question, replied)
        _carry_out(own, move)
        assert len(outcome.asked) <= ROUNDS_MAX
    outcome.rounds = len(outcome.asked)
    while rule.sends_last_epoch and (diverging := _diverging(own, leader)) is not None:
        _carry_out(own, step_back(_now(own, follower), diverging))
        outcome.rounds += 1
        assert outcome.rounds <= ROUNDS_MAX
    outcome.truncated_to = own.end_offset
    outcome.is_stuck = not _copies(own, leader)
    return outcome


def of(history: Unclean, truncation: Truncation, replica: int) -> Outcome:
    """The outcome of a history's follower."""
    return reconcile(truncation, history.follower_log(replica), history.logs[replica], history.logs[history.leader])


def pair(epoch: int, end_offset: int) -> EpochAnswer:
    """An answer of KIP-279's."""
    return EpochAnswer(epoch=epoch, end_offset=end_offset)


def _now(log: MemoryLog, before: FollowerLog) -> FollowerLog:
    end = log.end_offset
    return FollowerLog(log.epochs, end, min(before.high_watermark, end))


def _carry_out(log: MemoryLog, move: Move) -> None:
    if move.truncate_to is not None:
        log.truncate(max(move.truncate_to, log.start_offset))


def _diverging(log: MemoryLog, leader: MemoryLog) -> EpochEnd | None:
    return divergence(leader.epochs, leader.end_offset, log.end_offset, log.epochs.latest)


def _copies(log: MemoryLog, leader: MemoryLog) -> bool:
    """Append what the leader returns from the end of the log on; false if that does not continue it."""
    for data, head in leader.batches(log.end_offset):
        if head.base_offset < log.end_offset:
            return False
        log.append_as_follower(data)
    return log.end_offset <= leader.end_offset
