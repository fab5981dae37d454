"""The progress of each replica, as its leader knows it from fetches.

Contains bookkeeping of fetches and the majorities computed from it. Times are from the leader's clock.

A response is known to have been received once the next fetch arrives on the same connection: a follower has one
pending fetch, and it closes the connection of a fetch that timed out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

NEVER_BEFORE_MS = -(2**62)
"""Earlier than any time."""


@dataclass(slots=True)
class Progress:
    """One replica's progress within the leader's epoch."""

    end_offset: int = -1  # of its log, from its last valid fetch; -1 before the first
    last_fetch_ms: int = NEVER_BEFORE_MS
    last_caught_up_ms: int = NEVER_BEFORE_MS  # the latest time at which it had all records that the leader had then
    sent_high_watermark: int = -1  # in the latest response
    sent_turn: int = -1  # the turn of the event in which the leader sent it
    confirmed_ms: int = NEVER_BEFORE_MS  # when the leader sent the latest response known to have been received
    confirmed_turn: int = -1  # the turn of the event in which the leader sent that response
    _sent_ms: int = NEVER_BEFORE_MS
    _sent_on: int = -1
    _leader_end_at_fetch: int = 0

    def fetched(self, connection: int, end_offset: int, leader_end_offset: int, now_ms: int) -> bool:
        """Record a valid fetch; returns whether it confirms that the previous response was received."""
        confirms = connection == self._sent_on
        if confirms:
            self.confirmed_ms, self.confirmed_turn = self._sent_ms, self.sent_turn
        if end_offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif end_offset >= self._leader_end_at_fetch and self.last_fetch_ms > NEVER_BEFORE_MS:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset, self.last_fetch_ms = end_offset, now_ms
        self._leader_end_at_fetch = leader_end_offset
        return confirms

    def responded(self, connection: int, high_watermark: int, now_ms: int, turn: int) -> None:
        """Record a successful response."""
        self._sent_on, self._sent_ms, self.sent_turn = connection, now_ms, turn
        self.sent_high_watermark = high_watermark


def reached_by_majority(values: Iterable[int], majority: int) -> int:
    """The largest value that a majority has reached."""
    return sorted(values, reverse=True)[max(majority, 1) - 1]
