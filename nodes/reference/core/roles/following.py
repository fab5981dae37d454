"""Followers: fetch, append, truncate, and advance the high watermark.

Contains Fetch requests and the handling of their responses. Which leader to follow is decided by elections.
Sources: KIP-595 (Fetch), KIP-279 and KIP-320 (divergence by epochs).
"""

from __future__ import annotations

import dataclasses

from kio.schema.errors import ErrorCode

from nodes.reference.core.context import Context
from nodes.reference.core.events import Halt
from nodes.reference.core.messages import NOT_FOLLOWER, EpochEnd, FetchRequest, FetchResponse
from nodes.reference.core.roles.state_machine import Quorum
from nodes.reference.core.roles.states import Follower
from nodes.wire.batches import intact_heads

_FETCH_BYTES_MAX = 8 * 1024 * 1024


class Following:
    """The replication part of a node."""

    def __init__(self, context: Context, quorum: Quorum) -> None:
        self._context, self._settings, self._quorum = context, context.settings, quorum

    def request(self) -> FetchRequest:
        """The next fetch."""
        log, settings = self._context.log, self._settings
        last_fetched_epoch = self._quorum.epoch if settings.has("no-truncation") else log.last_epoch
        return FetchRequest(
            settings.cluster_id,
            settings.node_id,
            self._quorum.epoch,
            log.end_offset,
            last_fetched_epoch,
            settings.fetch_wait_max_ms,
            _FETCH_BYTES_MAX,
            log.high_watermark,
        )

    def apply(self, response: FetchResponse) -> bool:
        """Apply the leader's response; returns false if it is an error or not valid from a leader."""
        state = self._quorum.state
        if response.error is NOT_FOLLOWER:
            self._context.voters.demote()
        if response.error is not ErrorCode.none or not isinstance(state, Follower):
            return False
        if response.diverging is not None and not self._settings.has("no-truncation"):
            self._truncate(response.diverging, state.leader_id)
        elif not self._append(response.data):
            return False
        self._commit(response.high_watermark)
        if 0 <= response.high_watermark <= self._context.log.end_offset:
            self._quorum.has_new_disk = False
        now_ms, settings = self._context.now_ms, self._settings
        self._quorum.promised_until_ms = now_ms + settings.vote_promise_ms
        deadline_ms = now_ms + settings.fetch_timeout_ms
        self._quorum.update(dataclasses.replace(state, deadline_ms=deadline_ms, has_fetched=True))
        return True

    def _append(self, data: bytes) -> bool:
        log, end_offset, intact_bytes = self._context.log, self._context.log.end_offset, 0
        for head in intact_heads(data):
            if not log.continues(head, end_offset):
                return False
            end_offset, intact_bytes = head.last_offset + 1, head.end
        if intact_bytes:
            self._context.append(data[:intact_bytes])
        return intact_bytes > 0 or not data

    def _truncate(self, diverging: EpochEnd, leader_id: int) -> None:
        log = self._context.log
        offset = log.truncation_offset(diverging)
        if self._settings.has("truncation-off-by-one"):
            offset = max(0, offset - 1)
        if offset < log.high_watermark:
            failure = f"The leader requested truncation to offset {offset}, which is below the current high watermark"
            self._context.emit(Halt(f"{failure} {log.high_watermark}"))
            return
        self._context.truncate(offset)
        self._context.note(f"Truncated to offset {log.end_offset} from Fetch response from leader {leader_id}")

    def _commit(self, leader_high_watermark: int) -> None:
        log = self._context.log
        is_beyond_log = self._settings.has("high-watermark-beyond-log")
        high_watermark = leader_high_watermark if is_beyond_log else min(leader_high_watermark, log.end_offset)
        if high_watermark > log.high_watermark:
            if log.high_watermark < 0:
                text = f"High watermark set to LogOffsetMetadata(offset={high_watermark}, metadata=Optional.empty)"
                self._context.note(f"{text} for the first time for epoch {self._quorum.epoch}", "FollowerState")
            log.high_watermark = high_watermark
            self._context.metadata.advance(log, high_watermark)
