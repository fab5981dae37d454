"""The node's directory, in Kafka's formats, so that the same readers serve both systems.

    DIR/meta.properties
    DIR/__cluster_metadata-0/quorum-state                 one JSON line, version 0 or 1 (KIP-853), or KIP-642's
    DIR/__cluster_metadata-0/00000000000000000000.log     record batches v2, one segment, named by its first offset
    DIR/__cluster_metadata-0/00000000000000000120-0000000004.checkpoint
                                                          the latest snapshot, named by its end offset and epoch

Contains file access and fsync. All data is durable when a call returns. A torn tail of the log, which a crash can
leave, is truncated when the log is loaded; so is what the snapshot covers.
"""

from __future__ import annotations

import dataclasses
import json
import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from harness.model import BadInput, EnvironmentFailure, PeerFailure
from nodes.reference.core.events import (
    AppendLog,
    Assignment,
    Election,
    PersistElection,
    SaveSnapshot,
    Snapshot,
    Stored,
    TruncateLog,
)
from nodes.reference.core.messages import NO_NODE, SnapshotId
from nodes.reference.core.records.snapshots import contents, continuing, name_of
from nodes.reference.core.settings import NodeSettings
from nodes.reference.directory_ids import directory_text, directory_uuid
from nodes.wire.batches import heads, intact_heads, intact_length

_SUFFIX = ".checkpoint"


class Disk:
    """One node's files. Raises EnvironmentFailure if the directory cannot be opened."""

    def __init__(self, directory: Path, settings: NodeSettings, note: Callable[[str], None]) -> None:
        self._settings, self._note = settings, note
        self._partition = directory / "__cluster_metadata-0"
        self._quorum_state = self._partition / "quorum-state"
        try:
            self._partition.mkdir(parents=True, exist_ok=True)
            self._start_offset = max((int(path.stem) for path in self._partition.glob("*.log")), default=0)
            self._log = os.open(self._log_path(self._start_offset), os.O_RDWR | os.O_CREAT, 0o644)
            sync_directory(self._partition)
        except OSError as error:
            raise EnvironmentFailure(f"opening {directory}: {error.strerror}") from error

    def load(self) -> Stored:
        """The state of the last run; truncates a torn tail of the log first, and what the snapshot covers."""
        for path in self._partition.glob("*.log"):
            if int(path.stem) < self._start_offset:  # a crash has left it after its replacement was complete
                path.unlink()
        data = self._content()
        intact_bytes = bytes_to_keep(data, self._settings)
        if intact_bytes < len(data) and not self._settings.has("torn-tail-kept"):
            self._note(f"Truncated {len(data) - intact_bytes} bytes of a torn tail of the log")
            self.truncate(intact_bytes)
        data, snapshot = data[:intact_bytes], self._load_snapshot()
        if snapshot is not None and self._start_offset < snapshot.id.end_offset:
            data = continuing(data, snapshot.id)
            self._replace_log(snapshot.id.end_offset, data)
        return Stored(self._load_election(), data, snapshot)

    def carry_out(self, effect: PersistElection | AppendLog | TruncateLog | SaveSnapshot) -> None:
        """Write what the core wants written."""
        match effect:
            case PersistElection(election):
                self.persist(election)
            case AppendLog(data):
                self.append(data)
            case TruncateLog(end_bytes):
                self.truncate(end_bytes)
            case SaveSnapshot(snapshot, log_bytes):
                self.save(snapshot, log_bytes)

    def append(self, data: bytes) -> None:
        """Append batches to the log durably."""
        os.lseek(self._log, 0, os.SEEK_END)
        _write(self._log, data)
        if not self._settings.has("log-not-synced"):
            os.fdatasync(self._log)

    def truncate(self, end_bytes: int) -> None:
        """Truncate the log durably."""
        os.ftruncate(self._log, end_bytes)
        os.fsync(self._log)

    def save(self, snapshot: Snapshot, log_bytes: int | None) -> None:
        """Replace the snapshot atomically, and then the log by what is behind its first log_bytes bytes."""
        _replace(self._partition / f"{name_of(snapshot.id)}{_SUFFIX}", snapshot.data)
        if log_bytes is not None:
            self._replace_log(snapshot.id.end_offset, self._content()[log_bytes:])
        for path in self._snapshots()[:-1]:
            path.unlink()

    def _replace_log(self, start_offset: int, data: bytes) -> None:
        """Another segment with this content; until it is complete, the former one counts."""
        former = self._log_path(self._start_offset)
        _replace(self._log_path(start_offset), data)
        if start_offset != self._start_offset:
            former.unlink()
        os.close(self._log)
        self._start_offset, self._log = start_offset, os.open(self._log_path(start_offset), os.O_RDWR)

    def _log_path(self, start_offset: int) -> Path:
        return self._partition / f"{start_offset:020d}.log"

    def _content(self) -> bytes:
        os.lseek(self._log, 0, os.SEEK_SET)
        return b"".join(iter(lambda: os.read(self._log, 1 << 20), b""))

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
        _replace(self._quorum_state, json.dumps(content, separators=(",", ":")).encode(), is_synced)

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
        """Close the log file."""
        os.close(self._log)

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


def bytes_to_keep(data: bytes, settings: NodeSettings) -> int:
    """How much of the log's content a node starts with: its intact batches, but for mutants."""
    if settings.has("checksums-not-verified"):
        return max((head.end for head in heads(data)), default=0)
    if settings.has("restart-loses-last-batch"):
        return max((head.start for head in intact_heads(data)), default=0)
    return intact_length(data)


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
        _replace(path, "".join(f"{key}={value}\n" for key, value in pairs.items()).encode())
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


def _replace(path: Path, content: bytes, is_synced: bool = True) -> None:
    """Replace a file atomically, and durably unless a mutant forgets that."""
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        _write(descriptor, content)
        if is_synced:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.rename(path)
    if is_synced:
        sync_directory(path.parent)


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
