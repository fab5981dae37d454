"""Observers: notice that they have caught up with the leader, and nominate themselves as voters.

A round begins with a high watermark that the leader reports (KIP-642's readIndex) and succeeds once the observer's log
reaches it within the election timeout. After ROUNDS successful rounds in a row the observer nominates itself, if a
reassignment wants it as a voter. The leader may fail or not be ready, so it repeats that until it votes. A round that
takes longer, as after a partition, makes it begin again.

Contains when to nominate. Leaders note nominations in roles.reassigning.
Source: KIP-642, "Observer Promotion", the observer-based approach.
"""

from __future__ import annotations

from nodes.reference.core.context import Context
from nodes.reference.core.messages import NominateRequest

ROUNDS = 2
_REPEAT_MS = 500


class Nominating:
    """The rounds of one node."""

    def __init__(self, context: Context) -> None:
        self._context, self._settings = context, context.settings
        self._round: tuple[int, int] | None = None  # the high watermark to reach, and when it was reported
        self._epoch = 0
        self._succeeded = 0
        self._next_ms = 0

    def fetched(self, high_watermark: int, epoch: int) -> None:
        """A leader has reported a high watermark, and its records are appended."""
        if epoch != self._epoch:
            self._epoch, self._round, self._succeeded = epoch, None, 0
        if self._round is not None:
            wanted, since_ms = self._round
            if self._is_late(since_ms):
                self._succeeded = 0
            elif self._context.log.end_offset >= wanted:
                self._succeeded += 1
            else:
                return
        self._round = (high_watermark, self._context.now_ms) if high_watermark >= 0 else None

    def request(self, epoch: int) -> NominateRequest | None:
        """The nomination to send to the leader of this epoch instead of a fetch, if it is due."""
        is_due = self._has_caught_up(epoch) and self._context.now_ms >= self._next_ms
        if not is_due or self._settings.promotion != "observer-based" or not self._is_wanted():
            return None
        self._next_ms = self._context.now_ms + _REPEAT_MS
        return NominateRequest(self._settings.cluster_id, self._settings.node_id, epoch)

    def _has_caught_up(self, epoch: int) -> bool:
        """Whether enough rounds in this epoch have succeeded, and the one that goes on since then still may."""
        if self._epoch != epoch or self._round is None or self._is_late(self._round[1]):
            return False
        return self._succeeded >= ROUNDS

    def _is_late(self, since_ms: int) -> bool:
        """Whether a round that began then can no longer succeed."""
        return self._context.now_ms - since_ms > self._settings.election_timeout_ms

    def _is_wanted(self) -> bool:
        """Whether a reassignment is to make this node a voter."""
        last, me = self._context.voters.last.assignment, self._settings.node_id
        return last.target is not None and me in last.target and me not in last.current
