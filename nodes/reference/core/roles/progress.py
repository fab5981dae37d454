"""How far each replica is, as its leader can know it.

What may live here: bookkeeping of fetches and the majorities computed from it. Times are the leader's own clock.

A response is known to have been received once the next fetch comes in on the same connection: a follower fetches one
at a time and gives a connection up together with a fetch it stopped waiting for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

NEVER_BEFORE_MS = -(2**62)
"""Earlier than any moment."""


@dataclass(slots=True)
class Progress:
    """One replica's progress within the leader's epoch."""

    end_offset: int = -1  # of its log, as its last valid fetch told; -1 before the first
    last_fetch_ms: int = NEVER_BEFORE_MS
    last_caught_up_ms: int = NEVER_BEFORE_MS  # the latest moment at which it had all that the leader had then
    told_high_watermark: int = -1  # in the latest response
    confirmed_ms: int = NEVER_BEFORE_MS  # when the leader sent the latest response known to have been received
    confirmed_turn: int = -1  # likewise, as the leader counts events
    _sent_ms: int = NEVER_BEFORE_MS
    _sent_turn: int = -1
    _sent_on: int = -1
    _leader_end_at_fetch: int = 0

    def fetched(self, connection: int, end_offset: int, leader_end_offset: int, now_ms: int) -> bool:
        """A valid fetch came in; whether it confirms that the response before it was received."""
        confirms = connection == self._sent_on
        if confirms:
            self.confirmed_ms, self.confirmed_turn = self._sent_ms, self._sent_turn
        if end_offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif end_offset >= self._leader_end_at_fetch and self.last_fetch_ms > NEVER_BEFORE_MS:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset, self.last_fetch_ms = end_offset, now_ms
        self._leader_end_at_fetch = leader_end_offset
        return confirms

    def responded(self, connection: int, high_watermark: int, now_ms: int, turn: int) -> None:
        """A successful response goes out."""
        self._sent_on, self._sent_ms, self._sent_turn = connection, now_ms, turn
        self.told_high_watermark = high_watermark


def majority_th(values: Iterable[int], majority: int) -> int:
    """The largest value that a majority has reached."""
    return sorted(values, reverse=True)[max(majority, 1) - 1]
