"""Produce requests with acks=all that wait until their records are committed: Kafka's purgatory for Produce.

    writes.add(write)                  # a write with open appends
    for write in writes.settled(now):  # after every event: the writes without an open append
        reply(write)

The appends of a term are decided in the order of their ends, and all of them when the term ends. So each partition has
its open appends in a heap, and an event costs what it decides, not what waits: a client may have thousands of requests
in flight.

Contains which writes wait. What became of an append is in leading.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from kio.schema.errors import ErrorCode

from nodes.reference.core.partitions.events import RequestId
from nodes.reference.core.partitions.leading import Appended, Leading
from nodes.reference.core.partitions.messages import ProduceResult, TopicPartition
from nodes.reference.core.partitions.replica import NEVER_MS


@dataclass(slots=True)
class Write:
    """One request: what is known, and by partition the term and what it appended."""

    request_id: RequestId
    deadline_ms: int
    results: dict[TopicPartition, ProduceResult] = field(default_factory=dict)
    open: dict[TopicPartition, tuple[Leading, Appended]] = field(default_factory=dict)

    def close(self, partition: TopicPartition, error: ErrorCode) -> None:
        """The outcome of an open append."""
        self.results[partition] = result_of(*self.open.pop(partition), error)


Outcome = Callable[[TopicPartition, Leading, Appended], ErrorCode | None]
"""The outcome of an append; None while it is open."""


class WaitingWrites:
    """The writes that wait at one broker."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._numbers = count()
        self._appends: dict[TopicPartition, list[tuple[int, int, Write]]] = {}  # heaps: the end, a number
        self._deadlines: list[tuple[int, int, Write]] = []  # a heap, in which settled writes may remain

    @property
    def deadline_ms(self) -> int:
        """When the time of a write is over."""
        while self._deadlines and not self._deadlines[0][2].open:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else NEVER_MS

    def add(self, write: Write) -> None:
        """Let a write wait for its open appends."""
        number = next(self._numbers)
        for partition, (_, appended) in write.open.items():
            heappush(self._appends.setdefault(partition, []), (appended.end_offset, number, write))
        heappush(self._deadlines, (write.deadline_ms, number, write))

    def settled(self, now_ms: int) -> Iterator[Write]:
        """Take what is decided, and what is late as timed out; returns the writes of which nothing is open."""
        for partition in list(self._appends):
            appends = self._appends[partition]
            while appends:
                write = appends[0][2]
                if partition in write.open:
                    error = self._outcome(partition, *write.open[partition])
                    if error is None:
                        break
                    write.close(partition, error)
                    if not write.open:
                        yield write
                heappop(appends)
            if not appends:
                del self._appends[partition]
        while self.deadline_ms <= now_ms:
            write = heappop(self._deadlines)[2]
            for partition in list(write.open):
                write.close(partition, ErrorCode.request_timed_out)
            yield write


def result_of(leading: Leading, appended: Appended, error: ErrorCode) -> ProduceResult:
    """What a client learns of an append."""
    if error is not ErrorCode.none:
        return ProduceResult(error)
    return ProduceResult(error, appended.base_offset, leading.log.start_offset)
