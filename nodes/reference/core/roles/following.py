"""Followers: fetch, append, truncate, and advance the high watermark.

Contains Fetch requests and the handling of their responses. Which leader to follow is decided by elections.
Sources: KIP-595 (Fetch), KIP-279 and KIP-320 (divergence by epochs).
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from nodes.reference.core.context import Context
from nodes.reference.core.events import Halt
from nodes.reference.core.messages import (
    NOT_FOLLOWER,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    NominateRequest,
    UpdateVoterRequest,
)
from nodes.reference.core.roles.nominating import Nominating
from nodes.reference.core.roles.snapshotting import Snapshotting
from nodes.reference.core.roles.state_machine import Quorum
from nodes.reference.core.roles.states import Follower
from nodes.reference.core.roles.updating import Updating
from nodes.wire.batches import intact_heads


class Following:
    """The replication part of a node."""

    def __init__(self, context: Context, quorum: Quorum, snapshotting: Snapshotting) -> None:
        self._context, self._settings, self._quorum = context, context.settings, quorum
        self._snapshotting = snapshotting
        self._nominating, self._updating = Nominating(context), Updating(context)

    def request_to_leader(self) -> FetchRequest | FetchSnapshotRequest | NominateRequest | UpdateVoterRequest:
        """The next request to the leader: a fetch, of a snapshot if one is needed, or a nomination or an update of its
        address if one is due."""
        epoch = self._quorum.epoch
        if (of_snapshot := self._snapshotting.request(epoch)) is not None:
            return of_snapshot
        return self._nominating.request(epoch) or self._updating.request(epoch) or self.request()

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
            settings.fetch_max_bytes,
            log.high_watermark,
            settings.key.directory_id,
        )

    def apply(self, response: FetchResponse) -> bool:
        """Apply the leader's response; returns false if it is an error or not valid from a leader."""
        state = self._quorum.state
        if response.error is NOT_FOLLOWER:
            self._context.voters.demote()
        if response.error is not ErrorCode.none or not isinstance(state, Follower):
            return False
        if response.snapshot_id is not None:
            self._snapshotting.begin(response.snapshot_id, response.epoch)
        elif response.diverging is not None and not self._settings.has("no-truncation"):
            # What is left may still differ from the leader's log, so its high watermark says nothing about it.
            self._truncate(response.diverging, state.leader_id)
            if self._settings.has("high-watermark-beyond-log"):
                self._commit(response.high_watermark)
        elif self._append(response.data):
            self._advance(response)
        else:
            return False
        self._heard(state)
        return True

    def apply_snapshot(self, response: FetchSnapshotResponse) -> bool:
        """Take a piece of a snapshot; returns false if it is an error or not valid from a leader."""
        state = self._quorum.state
        if not isinstance(state, Follower) or not self._snapshotting.received(response):
            return False
        self._heard(state)
        return True

    def _heard(self, state: Follower) -> None:
        """The leader has answered: wait for it once more as long, and promise not to vote against it."""
        now_ms, settings = self._context.now_ms, self._settings
        self._quorum.promised_until_ms = now_ms + settings.vote_promise_ms
        deadline_ms = now_ms + settings.fetch_timeout_ms
        self._quorum.update(Follower(state.epoch, state.leader_id, state.voted_id, deadline_ms, has_fetched=True))

    def _advance(self, response: FetchResponse) -> None:
        """Take the high watermark of a leader whose log begins with this one."""
        self._commit(response.high_watermark)
        self._nominating.fetched(response.high_watermark, response.epoch)
        if 0 <= response.high_watermark <= self._context.log.end_offset:
            self._quorum.has_new_disk = False

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
