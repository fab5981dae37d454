"""The node's directory, in Kafka's own formats, so that the same readers serve both systems.

    DIR/meta.properties
    DIR/__cluster_metadata-0/quorum-state                 one JSON line, version 0 (static voters)
    DIR/__cluster_metadata-0/00000000000000000000.log     record batches v2 end to end, one segment

What may live here: files and fsync. Everything is on the disk when a call returns. A torn tail of the log, which a
crash may leave, is cut when the log is opened.
"""

from __future__ import annotations

import json
import os
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

from harness.model import BadInput, EnvironmentFailure
from nodes.reference.core.events import Election, Stored
from nodes.reference.core.messages import NO_NODE
from nodes.reference.core.settings import NodeSettings
from nodes.wire.batches import intact_length


class Disk:
    """One node's files. Raises EnvironmentFailure where the disk refuses."""

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
        """What the last run left; a torn tail of the log is cut first."""
        data = b"".join(iter(lambda: os.read(self._log, 1 << 20), b""))
        sound = intact_length(data)
        if sound < len(data):
            self._note(f"Cut {len(data) - sound} bytes of a torn tail from the log")
            self.truncate(sound)
        return Stored(self._load_election(), data[:sound])

    def append(self, data: bytes) -> None:
        """Write batches at the end of the log, durably."""
        os.lseek(self._log, 0, os.SEEK_END)
        view = memoryview(data)
        while view:
            view = view[os.write(self._log, view) :]
        os.fdatasync(self._log)

    def truncate(self, end_bytes: int) -> None:
        """Cut the log, durably."""
        os.ftruncate(self._log, end_bytes)
        os.fsync(self._log)

    def persist(self, election: Election) -> None:
        """Replace quorum-state: a whole new file, in place by one rename."""
        content = {
            "clusterId": "",
            "leaderId": NO_NODE if election.leader_id is None else election.leader_id,
            "leaderEpoch": election.epoch,
            "votedId": NO_NODE if election.voted_id is None else election.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in self._settings.voters],
            "data_version": 0,
        }
        _write_durably(self._quorum_state, json.dumps(content, separators=(",", ":")))

    def close(self) -> None:
        """Let go of the log's file."""
        os.close(self._log)

    def _load_election(self) -> Election:
        if not self._quorum_state.exists():
            return Election()
        try:
            content = json.loads(self._quorum_state.read_text())
            leader_id, voted_id = content["leaderId"], content["votedId"]
            return Election(content["leaderEpoch"], _known(leader_id), _known(voted_id))
        except (ValueError, KeyError) as error:
            raise EnvironmentFailure(f"reading {self._quorum_state}: not a quorum state ({error!r})") from error


def _known(node_id: int) -> int | None:
    return None if node_id == NO_NODE else node_id


def _check_meta(path: Path, settings: NodeSettings) -> None:
    """Write meta.properties on first use; afterwards the directory belongs to this node of this cluster."""
    if not path.exists():
        directory_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        pairs = {
            "version": "1",
            "cluster.id": settings.cluster_id,
            "node.id": str(settings.node_id),
            "directory.id": directory_id,
        }
        _write_durably(path, "".join(f"{key}={value}\n" for key, value in pairs.items()))
        return
    stored = dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
    for key, ours in (("cluster.id", settings.cluster_id), ("node.id", str(settings.node_id))):
        if stored.get(key) != ours:
            raise BadInput(f"{path}: {key}: expected {ours}, as configured, got {stored.get(key)!r}")


def _write_durably(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.rename(path)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
