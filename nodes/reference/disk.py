"""The node's directory, in Kafka's formats, so that the same readers serve both systems.

    DIR/meta.properties
    DIR/__cluster_metadata-0/quorum-state                 one JSON line, version 0; KIP-642's if the voters change
    DIR/__cluster_metadata-0/00000000000000000000.log     record batches v2, one segment

Contains file access and fsync. All data is durable when a call returns. A torn tail of the log, which a crash can
leave, is truncated when the log is loaded.
"""

from __future__ import annotations

import dataclasses
import json
import os
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.model import BadInput, EnvironmentFailure
from nodes.reference.core.events import Assignment, Election, Stored
from nodes.reference.core.messages import NO_NODE
from nodes.reference.core.settings import NodeSettings
from nodes.wire.batches import heads, intact_heads, intact_length


class Disk:
    """One node's files. Raises EnvironmentFailure if the directory cannot be opened."""

    def __init__(self, directory: Path, settings: NodeSettings, note: Callable[[str], None]) -> None:
        self._settings, self._note = settings, note
        self._partition = directory / "__cluster_metadata-0"
        self._quorum_state = self._partition / "quorum-state"
        try:
            self._partition.mkdir(parents=True, exist_ok=True)
            _check_meta(directory / "meta.properties", settings)
            self._log = os.open(self._partition / f"{0:020d}.log", os.O_RDWR | os.O_CREAT, 0o644)
            _sync_directory(self._partition)
        except OSError as error:
            raise EnvironmentFailure(f"opening {directory}: {error.strerror}") from error

    def load(self) -> Stored:
        """The state of the last run; truncates a torn tail of the log first."""
        data = b"".join(iter(lambda: os.read(self._log, 1 << 20), b""))
        intact_bytes = self._bytes_to_keep(data)
        if intact_bytes < len(data) and not self._settings.has("torn-tail-kept"):
            self._note(f"Truncated {len(data) - intact_bytes} bytes of a torn tail of the log")
            self.truncate(intact_bytes)
        return Stored(self._load_election(), data[:intact_bytes])

    def _bytes_to_keep(self, data: bytes) -> int:
        if self._settings.has("checksums-not-verified"):
            return max((head.end for head in heads(data)), default=0)
        if self._settings.has("restart-loses-last-batch"):
            return max((head.start for head in intact_heads(data)), default=0)
        return intact_length(data)

    def append(self, data: bytes) -> None:
        """Append batches to the log durably."""
        os.lseek(self._log, 0, os.SEEK_END)
        view = memoryview(data)
        while view:
            view = view[os.write(self._log, view) :]
        if not self._settings.has("log-not-synced"):
            os.fdatasync(self._log)

    def truncate(self, end_bytes: int) -> None:
        """Truncate the log durably."""
        os.ftruncate(self._log, end_bytes)
        os.fsync(self._log)

    def persist(self, election: Election) -> None:
        """Replace quorum-state atomically by a rename."""
        settings, assignment = self._settings, election.assignment
        current = settings.voters if assignment is None else assignment.current
        target = None if assignment is None or assignment.target is None else _voters(assignment.target)
        content = {
            "clusterId": settings.cluster_id if settings.changes_voters else "",
            "leaderId": NO_NODE if election.leader_id is None else election.leader_id,
            "leaderEpoch": election.epoch,
            "votedId": NO_NODE if election.voted_id is None else election.voted_id,
            "appliedOffset": election.applied_offset,
            "currentVoters": _voters(current),
            **({"targetVoters": target} if settings.changes_voters else {}),
            "data_version": 0,
        }
        is_synced = not self._settings.has("quorum-state-not-synced")
        _replace(self._quorum_state, json.dumps(content, separators=(",", ":")), is_synced)

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


def _check_meta(path: Path, settings: NodeSettings) -> None:
    """Write meta.properties on first use; later, check that the directory belongs to this node and cluster."""
    if not path.exists():
        directory_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        pairs = {
            "version": "1",
            "cluster.id": settings.cluster_id,
            "node.id": str(settings.node_id),
            "directory.id": directory_id,
        }
        _replace(path, "".join(f"{key}={value}\n" for key, value in pairs.items()))
        return
    stored = dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
    for key, configured in (("cluster.id", settings.cluster_id), ("node.id", str(settings.node_id))):
        if stored.get(key) != configured:
            raise BadInput(f"{path}: {key}: expected {configured}, as configured, found {stored.get(key)!r}")


def _replace(path: Path, text: str, is_synced: bool = True) -> None:
    """Replace a file atomically, and durably unless a mutant forgets that."""
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, text.encode())
        if is_synced:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.rename(path)
    if is_synced:
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
