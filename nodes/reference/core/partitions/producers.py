"""Idempotent producers: which batches of each were appended, so that one that is sent again is not appended again.

    producers = Producers.of(log)               # a new leader reads its log
    producers.check(head)                       # none, a duplicate's first offset, or an error
    producers.appended(head)

Contains sequences and offsets. Transactions are left out. Sources: KIP-98; KIP-360 (an unknown producer may begin at
any sequence); Kafka keeps the last five batches of each producer, as many as may be in flight.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.reference.core.partitions.log import ReplicaLog
from nodes.wire.batches import BatchHead

BATCHES_KEPT: Final = 5
NO_PRODUCER: Final = -1
_SEQUENCES: Final = 2**31  # after the last one, 0 follows


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch that was appended: its first and last sequence, and its first and last offset."""

    first: int
    last: int
    base_offset: int
    last_offset: int


@dataclass(slots=True)
class _Producer:
    """A producer's epoch and its last batches, the oldest first; there is at least one."""

    epoch: int
    batches: deque[_Batch] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))


@dataclass(frozen=True, slots=True)
class Checked:
    """Whether a batch may be appended: an error, or the offsets of the batch that it repeats, or neither."""

    error: ErrorCode = ErrorCode.none
    duplicate_of: tuple[int, int] | None = None  # first offset, last offset


class Producers:
    """The producers of one partition's log."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    @classmethod
    def of(cls, log: ReplicaLog) -> Producers:
        """The producers of everything that is in a log."""
        producers = cls()
        for _, head in log.batches(log.start_offset):
            producers.appended(head)
        return producers

    def check(self, head: BatchHead) -> Checked:
        """Whether a batch may be appended."""
        known = self._producers.get(head.producer_id)
        if head.producer_id == NO_PRODUCER or known is None:
            return Checked()
        if head.producer_epoch < known.epoch:
            return Checked(ErrorCode.invalid_producer_epoch)
        if head.producer_epoch > known.epoch:
            return Checked(ErrorCode.none if head.base_sequence == 0 else ErrorCode.out_of_order_sequence_number)
        sequences = head.base_sequence, _last_sequence(head)
        for each in known.batches:
            if (each.first, each.last) == sequences:
                return Checked(duplicate_of=(each.base_offset, each.last_offset))
        continues = head.base_sequence == _plus(known.batches[-1].last, 1)
        return Checked(ErrorCode.none if continues else ErrorCode.out_of_order_sequence_number)

    def appended(self, head: BatchHead) -> None:
        """Record a batch of the log."""
        if head.producer_id == NO_PRODUCER or head.is_control:
            return
        known = self._producers.get(head.producer_id)
        if known is None or known.epoch != head.producer_epoch:
            known = self._producers[head.producer_id] = _Producer(head.producer_epoch)
        known.batches.append(_Batch(head.base_sequence, _last_sequence(head), head.base_offset, head.last_offset))


def _last_sequence(head: BatchHead) -> int:
    return _plus(head.base_sequence, head.last_offset - head.base_offset)


def _plus(sequence: int, count: int) -> int:
    return (sequence + count) % _SEQUENCES
