"""What a follower asks its leader before it truncates, and how the leader answers from its epochs.

    EndOfEpoch      OffsetForLeaderEpoch version 0 (KIP-101): an offset alone
    LargestEpoch    OffsetForLeaderEpoch version 1 and later (KIP-279): an epoch and its end
    KnownEpoch      KIP-279's rejected alternative 1: an offset, or an error if the leader does not know the epoch
    Lineage         KIP-279's rejected alternative 2: the follower sends its epochs and their ends

Contains values and pure functions. nodes/reference/brokers/partition_apis.py has their forms on the wire: no release
of Kafka has the last two.
"""

from __future__ import annotations

from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.reference.core.messages import EpochEnd
from nodes.reference.core.partitions.epochs import NO_EPOCH, NO_OFFSET, UNDEFINED, EpochSequence

EPOCH_BITS, OFFSET_BITS = 32, 64


@dataclass(frozen=True, slots=True)
class EndOfEpoch:
    """Where does this epoch end, as far as a leader without KIP-279 can tell?"""

    epoch: int


@dataclass(frozen=True, slots=True)
class LargestEpoch:
    """Which is the largest epoch up to this one, and where does it end?"""

    epoch: int


@dataclass(frozen=True, slots=True)
class KnownEpoch:
    """Where does this epoch end, if the leader knows it?"""

    epoch: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where does a log with these epochs, the oldest first, diverge?"""

    ends: tuple[EpochEnd, ...]


Question = EndOfEpoch | LargestEpoch | KnownEpoch | Lineage


@dataclass(frozen=True, slots=True)
class EpochAnswer:
    """An epoch and an offset, either of which may be undefined (-1), or an error.

    is_unknown is the error that KIP-279 calls UNKNOWN_OFFSET_FOR_LEADER_EPOCH, which Kafka has no code for.
    """

    error: ErrorCode = ErrorCode.none
    epoch: int = NO_EPOCH
    end_offset: int = NO_OFFSET
    is_unknown: bool = False

    @property
    def end(self) -> EpochEnd:
        """Epoch and offset."""
        return EpochEnd(self.epoch, self.end_offset)


UNKNOWN = EpochAnswer(is_unknown=True)


def answer(question: Question, epochs: EpochSequence, log_end: int, by_letter: bool = False) -> EpochAnswer:
    """A leader's answer. by_letter is KIP-279's text where Kafka differs from it."""
    match question:
        case EndOfEpoch(epoch):
            return EpochAnswer(end_offset=epochs.offset_by_kip_101(epoch, log_end))
        case LargestEpoch(epoch) if by_letter:
            return _pair(epochs.end_of_by_letter(epoch, log_end))
        case LargestEpoch(epoch):
            return _pair(epochs.end_of(epoch, log_end))
        case KnownEpoch(epoch):
            return EpochAnswer(end_offset=epochs.end_of(epoch, log_end).end_offset) if epoch in epochs else UNKNOWN
        case Lineage(ends):
            known = {each.epoch: each.end_offset for each in epochs.ends(log_end)}
            common = next((each for each in reversed(ends) if each.epoch in known), None)
            return UNKNOWN if common is None else EpochAnswer(end_offset=min(common.end_offset, known[common.epoch]))


def _pair(end: EpochEnd) -> EpochAnswer:
    return UNKNOWN if end == UNDEFINED else EpochAnswer(epoch=end.epoch, end_offset=end.end_offset)


def size_bits(question: Question) -> int:
    """What a question adds to a request for its partition, without the topic and the partition's number."""
    if isinstance(question, Lineage):
        return len(question.ends) * (EPOCH_BITS + OFFSET_BITS)
    return EPOCH_BITS


def divergence(epochs: EpochSequence, log_end: int, fetch_offset: int, last_epoch: int) -> EpochEnd | None:
    """Where a log that ends at fetch_offset with a record of last_epoch diverges from the leader's; None if nowhere.

    What the leader answers to a fetch with the last epoch (KIP-595, KAFKA-10435). NO_EPOCH means that the follower's
    log has no epochs, or that its fetches do not have them.
    """
    if last_epoch == NO_EPOCH:
        return None
    end = epochs.end_of(last_epoch, log_end)
    return end if end.epoch < last_epoch or end.end_offset < fetch_offset else None
