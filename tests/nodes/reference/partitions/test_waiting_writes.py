"""Waiting writes: an event costs what it decides, however many wait, and each write is settled once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core.partitions.leading import Appended, Leading
from nodes.reference.core.partitions.messages import ProduceResult, TopicPartition
from nodes.reference.core.partitions.replica import NEVER_MS
from nodes.reference.core.partitions.waiting_writes import WaitingWrites, Write

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
LEADING: Any = SimpleNamespace(log=SimpleNamespace(start_offset=0))


class HighWatermarks:
    """Decides appends by the high watermarks of the partitions, and counts how often it was asked."""

    def __init__(self) -> None:
        self.of, self.asked = {FIRST: 0, SECOND: 0}, 0
        self.writes = WaitingWrites(self._outcome)

    def _outcome(self, partition: TopicPartition, _leading: Leading, appended: Appended) -> ErrorCode | None:
        self.asked += 1
        return ErrorCode.none if appended.end_offset <= self.of[partition] else None

    def add(self, number: int, deadline_ms: int, **ends: int) -> None:
        """A write that appended the record before this end to each of the partitions."""
        named = {FIRST: ends.get("first"), SECOND: ends.get("second")}
        appended = {
            each: (LEADING, Appended(base_offset=end - 1, end_offset=end)) for each, end in named.items() if end
        }
        self.writes.add(Write(number, deadline_ms, open=appended))

    def settled(self, now_ms: int = 0) -> list[int]:
        """The numbers of the writes that are settled now."""
        return [write.request_id for write in self.writes.settled(now_ms)]


def test_an_event_costs_what_it_decides() -> None:
    partitions, count = HighWatermarks(), 10_000
    for number in range(count):
        partitions.add(number, 30_000, first=number + 1)
    assert partitions.settled() == []
    partitions.of[FIRST] = 3
    assert partitions.settled() == [0, 1, 2]
    assert partitions.asked == 5  # the first, then the three that are decided, then the next
    partitions.of[FIRST] = count
    assert partitions.settled() == [*range(3, count)]
    assert partitions.writes.deadline_ms == NEVER_MS


def test_a_write_of_two_partitions_is_settled_when_both_are() -> None:
    partitions = HighWatermarks()
    partitions.add(1, 100, first=1, second=5)
    partitions.add(2, 50, second=6)
    partitions.of[FIRST] = 1
    assert partitions.settled() == []
    partitions.of[SECOND] = 6
    assert partitions.settled() == [1, 2]


def test_what_is_open_at_the_deadline_has_timed_out() -> None:
    partitions = HighWatermarks()
    partitions.add(1, 100, first=1, second=1)
    partitions.add(2, 50, first=2)
    partitions.of[FIRST] = 1
    assert partitions.settled(49) == []
    assert partitions.writes.deadline_ms == 50
    assert partitions.settled(50) == [2]
    (late,) = partitions.writes.settled(100)
    assert late.results == {
        FIRST: ProduceResult(ErrorCode.none, 0, 0),
        SECOND: ProduceResult(ErrorCode.request_timed_out),
    }
    partitions.of |= {FIRST: 2, SECOND: 1}
    assert partitions.settled(200) == []
