"""How a follower truncates its log before it fetches: the rules of KIP-101, KIP-279, its alternatives, and KIP-320.

    rule = RULES["kip-279"]
    move = rule.begin(log)                                  # Move(question=LargestEpoch(2))
    move = rule.answered(log, move.question, the_answer)    # Move(truncate_to=11): and it may fetch
    move = to_high_watermark(log)                           # after an error or a time-out, as the KIPs say

A move is carried out at once: truncate, if truncate_to is set, then ask, if there is a question. Without a question the
follower fetches. `log` is what it has at each call.

Contains pure functions and one table. Does not contain logs, requests or time. Sources: KIP-101, KIP-279, KIP-320 and
KAFKA-10435 (truncation by the answers to fetches).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, get_args

from nodes.reference.core.messages import EpochEnd
from nodes.reference.core.partitions.epochs import NO_EPOCH, NO_OFFSET, EpochSequence
from nodes.reference.core.partitions.questions import (
    EndOfEpoch,
    EpochAnswer,
    KnownEpoch,
    LargestEpoch,
    Lineage,
    Question,
)

Truncation = Literal[
    "high-watermark",
    "kip-101",
    "kip-279",
    "kip-279-letter",
    "kip-279-alternative-1",
    "kip-279-alternative-2",
    "kip-279-clean-only-1",
    "on-fetch",
]
TRUNCATIONS: tuple[Truncation, ...] = get_args(Truncation)

EPOCHS_MORE: Final = 2
"""How many earlier epochs each further round of alternative 2 has, which the KIP leaves to tuning."""


@dataclass(frozen=True, slots=True)
class FollowerLog:
    """What a rule sees of a follower's log; after a crash its high watermark is the one that was stored last."""

    epochs: EpochSequence
    end_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Move:
    """What a follower does next. truncate_to is a record's offset; a batch that contains it goes as a whole."""

    truncate_to: int | None = None
    question: Question | None = None


@dataclass(frozen=True, slots=True)
class TruncationRule:
    """A rule: the first move of a follower of a new leader, and the move that follows an answer without an error.

    sends_last_epoch: fetches have the epoch of the last record, so that the leader finds where the log diverges.
    answers_by_letter: as a leader, answer by KIP-279's text where Kafka differs from it.
    answers_known_epochs: as a leader, answer only about epochs that it knows. Alternative 1 changes the answers and not
    the format, so its question has the form of KIP-279's on the wire.
    """

    begin: Callable[[FollowerLog], Move]
    answered: Callable[[FollowerLog, Question, EpochAnswer], Move]
    sends_last_epoch: bool = False
    answers_by_letter: bool = False
    answers_known_epochs: bool = False


def to_high_watermark(log: FollowerLog) -> Move:
    """Truncate to the high watermark: the rule before KIP-101, and what follows errors and unknown epochs."""
    return Move(min(log.high_watermark, log.end_offset))


def fetch(_log: FollowerLog) -> Move:
    """Fetch at once: the leader's answer says whether the log diverges."""
    return Move()


def asks_nothing(_log: FollowerLog, question: Question, _answer: EpochAnswer) -> Move:
    """For rules without questions."""
    raise AssertionError(f"an answer to {question}, which this rule does not ask")


def about_last_epoch(ask: Callable[[int], Question]) -> Callable[[FollowerLog], Move]:
    """Ask about the last epoch; a log without epochs is truncated to the high watermark."""

    def begin(log: FollowerLog) -> Move:
        return Move(question=ask(log.epochs.latest)) if log.epochs.starts else to_high_watermark(log)

    return begin


def to_leaders_offset(log: FollowerLog, _question: Question, answer: EpochAnswer) -> Move:
    """KIP-101: truncate to the offset at which the follower's last epoch ends on the leader, whatever epoch follows."""
    return to_high_watermark(log) if answer.end_offset == NO_OFFSET else Move(min(answer.end_offset, log.end_offset))


def to_common_epoch(log: FollowerLog, question: Question, answer: EpochAnswer) -> Move:
    """KIP-279: step back until the leader names an epoch that the follower knows, then truncate to its end."""
    if answer.is_unknown:
        return to_high_watermark(log)
    if answer.epoch == NO_EPOCH:
        return to_leaders_offset(log, question, answer)  # a leader without KIP-279
    return step_back(log, answer.end)


def step_back(log: FollowerLog, leader: EpochEnd) -> Move:
    """KIP-279's steps 3 and 4, given the leader's epoch and its end.

    The KIP does not say what follows if all of the follower's epochs are later than the leader's. Then nothing that it
    has is the leader's, and it keeps nothing of them.
    """
    largest = log.epochs.below(leader.epoch + 1)
    end = min((each.offset for each in log.epochs.starts if each.epoch > leader.epoch), default=log.end_offset)
    if largest in (leader.epoch, NO_EPOCH):
        return Move(min(end, leader.end_offset))
    return Move(end, LargestEpoch(largest))


def to_known_epoch(log: FollowerLog, question: Question, answer: EpochAnswer) -> Move:
    """KIP-279's rejected alternative 1: ask about one epoch after another, until the leader knows it."""
    assert isinstance(question, KnownEpoch)
    if not answer.is_unknown:
        return step_back(log, EpochEnd(question.epoch, answer.end_offset))
    before = log.epochs.below(question.epoch)
    return to_high_watermark(log) if before == NO_EPOCH else Move(question=KnownEpoch(before))


def above_high_watermark(log: FollowerLog) -> Move:
    """KIP-279's rejected alternative 2: send the epochs that end at the high watermark or later, with their ends."""
    ends = tuple(each for each in log.epochs.ends(log.end_offset) if each.end_offset >= log.high_watermark)
    return Move(question=Lineage(ends)) if ends else to_high_watermark(log)


def to_divergence(log: FollowerLog, question: Question, answer: EpochAnswer) -> Move:
    """Alternative 2: truncate to the leader's offset, or send more epochs if it knows none of these."""
    assert isinstance(question, Lineage)
    if not answer.is_unknown:
        return Move(min(answer.end_offset, log.end_offset))
    ends, sent = log.epochs.ends(log.end_offset), len(question.ends)
    if sent == len(ends):
        return to_high_watermark(log)
    return Move(question=Lineage(tuple(ends[-sent - EPOCHS_MORE :])))


def about_high_watermark(log: FollowerLog) -> Move:
    """KIP-279's alternative 1 for clean elections: ask about the epoch of the last record below the high watermark.

    It is safe only if no crash moves the high watermark back into an earlier epoch
    (PartitionSettings.stores_high_watermark_at_leader_change), and if all below it is the leader's: not after an
    unclean election.
    """
    epoch = log.epochs.at(log.high_watermark - 1)
    return to_high_watermark(log) if epoch == NO_EPOCH else Move(question=EndOfEpoch(epoch))


def to_end_of_asked_epoch(log: FollowerLog, question: Question, answer: EpochAnswer) -> Move:
    """The same alternative: truncate what is of later epochs, then to the leader's offset."""
    assert isinstance(question, EndOfEpoch)
    if answer.end_offset == NO_OFFSET:
        return to_high_watermark(log)
    later = (each.offset for each in log.epochs.starts if each.epoch > question.epoch)
    return Move(min(answer.end_offset, min(later, default=log.end_offset)))


_KIP_279 = about_last_epoch(LargestEpoch), to_common_epoch

RULES: Mapping[Truncation, TruncationRule] = MappingProxyType(
    {
        "high-watermark": TruncationRule(to_high_watermark, asks_nothing),
        "kip-101": TruncationRule(about_last_epoch(EndOfEpoch), to_leaders_offset),
        "kip-279": TruncationRule(*_KIP_279),
        "kip-279-letter": TruncationRule(*_KIP_279, answers_by_letter=True),
        "kip-279-alternative-1": TruncationRule(
            about_last_epoch(KnownEpoch), to_known_epoch, answers_known_epochs=True
        ),
        "kip-279-alternative-2": TruncationRule(above_high_watermark, to_divergence),
        "kip-279-clean-only-1": TruncationRule(about_high_watermark, to_end_of_asked_epoch),
        "on-fetch": TruncationRule(fetch, asks_nothing, sends_last_epoch=True),
    }
)
"""Every rule, by the name that selects it."""
