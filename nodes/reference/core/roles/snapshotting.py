"""Snapshots: when a node makes one, what a leader sends of it, and how a follower fetches one (KIP-630).

Every node makes a snapshot of what it has applied after snapshot_bytes of new records, or after snapshot_interval_ms
if there are any, and then removes the log that the snapshot covers if that exceeds retention_bytes. A follower whose
log ends before the leader's begins gets the snapshot's id instead of records. It fetches the snapshot piece by piece,
and then its own log begins behind it: whatever it held is replaced.

Contains these decisions. The format is in records.snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from nodes.reference.core.context import Context
from nodes.reference.core.events import AdvanceLogStart, RestartLog, Snapshot
from nodes.reference.core.messages import FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse, SnapshotId
from nodes.reference.core.records.snapshots import contents, name_of, snapshot_data
from nodes.reference.core.settings import NEVER_MS


@dataclass(slots=True)
class _Download:
    """A snapshot that is being fetched from the leader of this epoch."""

    epoch: int
    snapshot_id: SnapshotId
    data: bytes = b""


class Snapshotting:
    """The snapshots of one node."""

    def __init__(self, context: Context) -> None:
        self._context, self._settings = context, context.settings
        self._made_ms = context.now_ms  # when the latest snapshot was made or fetched, or the node started
        self._download: _Download | None = None

    @property
    def deadline_ms(self) -> int:
        """When the next snapshot is due without new records."""
        has_news = self._context.metadata.applied_offset > self._covered
        return self._made_ms + self._settings.snapshot_interval_ms if has_news else NEVER_MS

    @property
    def _covered(self) -> int:
        snapshot = self._context.snapshot
        return 0 if snapshot is None else snapshot.id.end_offset

    @property
    def _is_early(self) -> bool:
        return self._settings.has("snapshot-of-uncommitted-records")

    def advance(self) -> None:
        """Make a snapshot if one is due."""
        context, log = self._context, self._context.log
        end = log.end_offset if self._is_early else context.metadata.applied_offset
        if end <= self._covered or (end > log.high_watermark and not self._is_early):
            return
        size, is_late = log.size_of(max(self._covered, log.start.end_offset), end), context.now_ms >= self.deadline_ms
        if size >= self._settings.snapshot_bytes or is_late:
            snapshot_id = SnapshotId(end, log.epoch_before(end))
            reason = "the interval is over" if is_late else f"{size} bytes were applied"
            context.note(f"Creating new KRaft snapshot file snapshot {name_of(snapshot_id)} because {reason}.")
            self._make(snapshot_id)

    def _make(self, snapshot_id: SnapshotId) -> None:
        context, settings, log = self._context, self._settings, self._context.log
        assignment = context.voters.named_below(snapshot_id.end_offset)
        image = context.metadata.image_at_end(log) if self._is_early else context.metadata.image
        data = snapshot_data(image, assignment, snapshot_id, settings.cluster_id, context.wall_ms)
        is_too_large = log.size_of(log.start.end_offset, log.end_offset) > settings.retention_bytes
        context.save(Snapshot(snapshot_id, data))
        if is_too_large:
            log.remove_before(snapshot_id)
            context.emit(AdvanceLogStart(snapshot_id.end_offset))
        self._made_ms = context.now_ms

    def begin(self, snapshot_id: SnapshotId, epoch: int) -> None:
        """The leader of this epoch says that this node needs a snapshot."""
        if snapshot_id.end_offset > self._context.log.high_watermark:
            self._download = _Download(epoch, snapshot_id)

    def request(self, epoch: int) -> FetchSnapshotRequest | None:
        """The next request for the snapshot that is being fetched from the leader of this epoch, if one is."""
        download, settings = self._download, self._settings
        if download is None or download.epoch != epoch:
            return None
        return FetchSnapshotRequest(
            settings.cluster_id,
            settings.node_id,
            epoch,
            download.snapshot_id,
            len(download.data),
            settings.fetch_snapshot_max_bytes,
            settings.key.directory_id,
        )

    def received(self, response: FetchSnapshotResponse) -> bool:
        """Take a piece of the snapshot; returns false if that is an error, with which the download ends."""
        download, self._download = self._download, None
        if download is None or response.error is not ErrorCode.none or response.epoch != download.epoch:
            return False
        is_next = (response.snapshot_id, response.position) == (download.snapshot_id, len(download.data))
        if not is_next or not response.data:
            return False
        data = download.data + response.data
        if len(data) < response.size:
            self._download = _Download(download.epoch, download.snapshot_id, data)
            return True
        return self._install(Snapshot(download.snapshot_id, data), response.leader_id)

    def _install(self, snapshot: Snapshot, leader_id: int) -> bool:
        context, log = self._context, self._context.log
        try:
            found = contents(snapshot.data)
        except PeerFailure as damaged:
            context.note(f"The snapshot from leader {leader_id} cannot be used: {damaged}")
            return False
        log.begin_behind(snapshot.id)
        context.metadata.load(found.image, snapshot.id.end_offset)
        if self._settings.changes_voters and not self._settings.has("voters-of-snapshot-ignored"):
            context.voters.loaded(snapshot.id, found.assignment)
        context.save(snapshot)
        context.emit(RestartLog(snapshot.id.end_offset))
        context.note(f"Fully truncated the log at snapshot {name_of(snapshot.id)} from leader {leader_id}")
        self._made_ms = context.now_ms
        return True


def of_snapshot(error: FetchResponse, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """The response to a request for a snapshot that fails as a fetch would."""
    return FetchSnapshotResponse(error.error, error.leader_id, error.epoch, request.snapshot_id)


def piece_of(
    snapshot: Snapshot | None, request: FetchSnapshotRequest, leader_id: int, epoch: int
) -> FetchSnapshotResponse:
    """The leader's response to a request for a piece of its latest snapshot."""
    if snapshot is None or snapshot.id != request.snapshot_id:
        return FetchSnapshotResponse(ErrorCode.snapshot_not_found, leader_id, epoch, request.snapshot_id)
    position, size = request.position, len(snapshot.data)
    if not 0 <= position < size:
        return FetchSnapshotResponse(ErrorCode.position_out_of_range, leader_id, epoch, snapshot.id)
    piece = snapshot.data[position : position + max(1, request.max_bytes)]
    return FetchSnapshotResponse(ErrorCode.none, leader_id, epoch, snapshot.id, size, position, piece)
