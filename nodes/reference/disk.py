"""The node's directory, in Kafka's formats, so that the same readers serve both systems.

    DIR/meta.properties
    DIR/__cluster_metadata-0/quorum-state                 one JSON line, version 0 or 1 (KIP-853), or KIP-642's
    DIR/__cluster_metadata-0/00000000000000000000.log     record batches v2 from this offset on, in segments (logs/)
    DIR/__cluster_metadata-0/00000000000000000120-0000000004.checkpoint
                                                          the latest snapshot, named by its end offset and epoch

Contains file access and fsync. All data is durable when a call returns. A torn tail of the last segment, which a crash
can leave, is truncated when the log is opened; a segment that a snapshot covers is removed.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from harness.durable_files import replace_file
from harness.model import BadInput, EnvironmentFailure, PeerFailure
from nodes.reference.core.events import (
    AdvanceLogStart,
    AppendLog,
    Assignment,
    Election,
    OnDisk,
    PersistElection,
    RestartLog,
    SaveSnapshot,
    Snapshot,
    Stored,
    TruncateLog,
)
from nodes.reference.core.messages import NO_NODE, SnapshotId
from nodes.reference.core.records.snapshots import contents, name_of
from nodes.reference.core.settings import NodeSettings
from nodes.reference.directory_ids import directory_text, directory_uuid
from nodes.reference.logs.disk_log import DiskLog
from nodes.reference.logs.segments import Recovery
from nodes.wire.batches import is_intact

_SUFFIX = ".checkpoint"


class Disk:
    """One node's files. Raises EnvironmentFailure if the directory cannot be opened."""

    def __init__(self, directory: Path, settings: NodeSettings, note: Callable[[str], None]) -> None:
        self._settings, self._note = settings, note
        self._partition = directory / "__cluster_metadata-0"
        self._quorum_state = self._partition / "quorum-state"
        try:
            self._log = self._opened()
        except OSError as error:
            raise EnvironmentFailure(f"opening {directory}: {error.strerror}") from error

    def _opened(self) -> DiskLog:
        has = self._settings.has
        recovery = Recovery(None, not has("checksums-not-verified"), not has("torn-tail-kept"))
        is_synced = not has("log-not-synced")
        log = DiskLog(self._partition, self._settings.segment_bytes, recovery, flushes_full_segments=is_synced)
        log.configure(self._settings.segment_bytes, self._settings.segment_ms)
        log.flush()
        return log

    def load(self) -> Stored:
        """The state of the last run, without what the snapshot covers.

        Raises EnvironmentFailure for a snapshot or log that is damaged before its last segment.
        """
        if self._log.torn_bytes and not self._settings.has("torn-tail-kept"):
            self._note(f"Truncated {self._log.torn_bytes} bytes of a torn tail of the log")
        if self._settings.has("restart-loses-last-batch"):
            self.truncate(max((head.base_offset for _, head in self._log.batches(0)), default=0))
        snapshot = self._load_snapshot()
        start = 0 if snapshot is None else snapshot.id.end_offset
        if self._log.stored_from > start:
            expected = f"a snapshot that ends at offset {self._log.stored_from} or later, where the log begins"
            found = "none" if snapshot is None else f"one that ends at offset {start}"
            raise EnvironmentFailure(f"reading {self._partition}: expected {expected}, found {found}")
        if snapshot is not None and self._continues(snapshot.id):
            self._log.advance_start(start)
        elif snapshot is not None:
            self._log.truncate_fully_and_start_at(start)
        self._log.flush()
        return Stored(self._load_election(), self._content(start), snapshot)

    def _continues(self, snapshot_id: SnapshotId) -> bool:
        """Whether the log begins where this snapshot ends, or has its last record."""
        if self._log.stored_from == snapshot_id.end_offset:
            return True
        _, head = next(self._log.batches(snapshot_id.end_offset - 1), (b"", None))
        return head is not None and SnapshotId(head.last_offset + 1, head.leader_epoch) == snapshot_id

    def _content(self, start: int) -> bytes:
        """The batches from start on."""
        batches, end = [], start
        for data, head in self._log.batches(start):
            is_damaged = not self._settings.has("checksums-not-verified") and not is_intact(data, head)
            if head.base_offset != end or is_damaged:
                break
            batches.append(data)
            end = head.last_offset + 1
        if end != self._log.end_offset:
            expected = f"an intact batch at offset {end}, since only the last segment may be torn"
            raise EnvironmentFailure(f"reading {self._partition}: expected {expected}; it is damaged or missing")
        return b"".join(batches)

    def carry_out(self, effect: OnDisk) -> None:
        """Write what the core wants written."""
        match effect:
            case PersistElection(election):
                self.persist(election)
            case AppendLog(data):
                self.append(data)
            case TruncateLog(end_offset):
                self.truncate(end_offset)
            case SaveSnapshot(snapshot):
                self.save(snapshot)
            case AdvanceLogStart(start_offset):
                self._log.advance_start(start_offset)
                self._log.flush()
            case RestartLog(start_offset):
                self._log.truncate_fully_and_start_at(start_offset)
                self._log.flush()

    def append(self, data: bytes) -> None:
        """Append batches to the log durably."""
        self._log.append_as_follower(data)
        if not self._settings.has("log-not-synced"):
            self._log.flush()

    def truncate(self, end_offset: int) -> None:
        """Keep the batches of the log that end at or before end_offset, durably."""
        self._log.truncate(end_offset)
        self._log.flush()

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot, and then remove the others."""
        replace_file(self._partition / f"{name_of(snapshot.id)}{_SUFFIX}", snapshot.data)
        for path in self._snapshots()[:-1]:
            path.unlink()

    def _snapshots(self) -> list[Path]:
        return sorted(self._partition.glob(f"*{_SUFFIX}"))

    def _load_snapshot(self) -> Snapshot | None:
        """The latest one. Raises EnvironmentFailure if it is damaged."""
        for path in self._snapshots()[-1:]:
            end_offset, epoch = map(int, path.stem.split("-"))
            data = path.read_bytes()
            try:
                contents(data)
            except PeerFailure as damaged:
                raise EnvironmentFailure(f"{path}: {damaged}") from damaged
            return Snapshot(SnapshotId(end_offset, epoch), data)
        return None

    def persist(self, election: Election) -> None:
        """Replace quorum-state atomically by a rename."""
        is_synced = not self._settings.has("quorum-state-not-synced")
        content = self._of_directories(election) if self._settings.has_directories else self._of_voters(election)
        replace_file(self._quorum_state, json.dumps(content, separators=(",", ":")).encode(), is_synced)

    def _of_directories(self, election: Election) -> dict[str, Any]:
        """Version 1, which leaves the voters to the log (KIP-853)."""
        return {
            "leaderId": NO_NODE if election.leader_id is None else election.leader_id,
            "leaderEpoch": election.epoch,
            "votedId": NO_NODE if election.voted_id is None else election.voted_id,
            "votedDirectoryId": directory_text(election.voted_directory_id),
            "data_version": 1,
        }

    def _of_voters(self, election: Election) -> dict[str, Any]:
        """Version 0, with the fields of KIP-642 if the voters change."""
        settings, assignment = self._settings, election.assignment
        current = settings.voters if assignment is None else assignment.current
        target = None if assignment is None or assignment.target is None else _voters(assignment.target)
        return {
            "clusterId": settings.cluster_id if settings.changes_voters else "",
            "leaderId": NO_NODE if election.leader_id is None else election.leader_id,
            "leaderEpoch": election.epoch,
            "votedId": NO_NODE if election.voted_id is None else election.voted_id,
            "appliedOffset": election.applied_offset,
            "currentVoters": _voters(current),
            **({"targetVoters": target} if settings.changes_voters else {}),
            "data_version": 0,
        }

    def close(self) -> None:
        """Close the log's files."""
        self._log.close()

    def _load_election(self) -> Election:
        if not self._quorum_state.exists():
            return Election()
        try:
            content = json.loads(self._quorum_state.read_text())
            leader_id, voted_id = content["leaderId"], content["votedId"]
            election = Election(content["leaderEpoch"], _optional_id(leader_id), _optional_id(voted_id))
            if self._settings.has_directories:
                voted_directory_id = directory_uuid(content["votedDirectoryId"])
                return dataclasses.replace(election, voted_directory_id=voted_directory_id)
            applied_offset = content["appliedOffset"]
            if not self._settings.changes_voters or applied_offset == 0:
                return election
            target = content["targetVoters"]
            assignment = Assignment(_ids(content["currentVoters"]), None if target is None else _ids(target))
            return dataclasses.replace(election, applied_offset=applied_offset, assignment=assignment)
        except (ValueError, KeyError, TypeError) as error:
            raise EnvironmentFailure(f"reading {self._quorum_state}: not a valid quorum state: {error!r}") from error


def _optional_id(node_id: int) -> int | None:
    return None if node_id == NO_NODE else node_id


def _voters(ids: Iterable[int]) -> list[dict[str, int]]:
    return [{"voterId": voter} for voter in ids]


def _ids(voters: Iterable[dict[str, int]]) -> tuple[int, ...]:
    return tuple(voter["voterId"] for voter in voters)


def formatted(directory: Path, settings: NodeSettings) -> NodeSettings:
    """The settings with the directory's id.

    A directory gets its meta.properties on first use: the id that the initial voters have for this node, or else a new
    one. Later, it is checked that the directory belongs to this node and cluster. Raises BadInput if it does not, and
    EnvironmentFailure if the directory cannot be used.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return dataclasses.replace(settings, directory_id=_meta(directory / "meta.properties", settings))
    except OSError as error:
        raise EnvironmentFailure(f"opening {directory}: {error.strerror}") from error


def _meta(path: Path, settings: NodeSettings) -> uuid.UUID:
    """The directory's id in meta.properties, which is written on first use."""
    if not path.exists():
        own = (voter.key for voter in settings.initial_voters if voter.key.node_id == settings.node_id)
        directory_id = next((key.directory_id for key in own if key.directory_id), None) or uuid.uuid4()
        pairs = {
            "version": "1",
            "cluster.id": settings.cluster_id,
            "node.id": str(settings.node_id),
            "directory.id": directory_text(directory_id),
        }
        replace_file(path, "".join(f"{key}={value}\n" for key, value in pairs.items()).encode())
        return directory_id
    stored = dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
    for key, configured in (("cluster.id", settings.cluster_id), ("node.id", str(settings.node_id))):
        if stored.get(key) != configured:
            raise BadInput(f"{path}: {key}: expected {configured}, as configured, found {stored.get(key)!r}")
    try:
        found = directory_uuid(stored["directory.id"])
    except (KeyError, ValueError) as error:
        raise BadInput(f"{path}: directory.id: expected an id, found {stored.get('directory.id')!r}") from error
    if found is None:
        raise BadInput(f"{path}: directory.id: expected an id, found that of no directory")
    return found
