"""A node's disk in memory, which knows what was synced: what nodes.reference.disk keeps in files.

Contains the log's content and the election state. Does not contain which faults a disk has when.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from nodes.reference.core.events import AdvanceLogStart, Election, RestartLog, Snapshot, Stored
from nodes.reference.core.records.snapshots import continuing
from nodes.reference.core.settings import NodeSettings
from nodes.wire.batches import heads, intact_heads, intact_length, length_below


class SimulatedDisk:
    """One node's disk. Everything is synced before a call returns, but for the mutants that forget that."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._erasures = 0
        self._log = bytearray()
        self._synced_bytes = 0
        self._snapshot: Snapshot | None = None
        self._election = self._synced_election = Election()

    def formatted(self, settings: NodeSettings) -> NodeSettings:
        """The settings with the directory's id: that which the initial voters have for this node, if it is one.

        An emptied disk is that of a newcomer, with a new id and without initial voters (KIP-853).
        """
        if not settings.has_directories:
            return settings
        if self._erasures:
            return replace(settings, directory_id=self.directory_id, initial_voters=())
        own = (each.key.directory_id for each in settings.initial_voters if each.key.node_id == settings.node_id)
        return replace(settings, directory_id=next(own, directory_id_of(settings.node_id)))

    def load(self, settings: NodeSettings) -> Stored:
        """What a node with these settings starts with; a torn tail of the log is truncated first."""
        self._settings = settings
        data = bytes(self._log)
        kept = _bytes_to_keep(data, settings)
        if kept < len(data) and not settings.has("torn-tail-kept"):
            self._cut(kept)
        if self._snapshot is None:
            return Stored(self._election, data[:kept])
        behind = continuing(data[:kept], self._snapshot.id)
        if len(behind) < kept:
            self._keep(behind)
        return Stored(self._election, behind, self._snapshot)

    @property
    def directory_id(self) -> uuid.UUID:
        """The id of the directory on it now (KIP-853)."""
        node = self._settings.node_id
        return uuid.UUID(int=(self._erasures << 32) + node) if self._erasures else directory_id_of(node)

    @property
    def durable_election(self) -> Election:
        """The election state that survives a power failure."""
        return self._synced_election

    @property
    def log(self) -> bytes:
        """The content of the log."""
        return bytes(self._log)

    def append(self, data: bytes) -> None:
        """Append batches to the log."""
        self._log += data
        if not self._settings.has("log-not-synced"):
            self._synced_bytes = len(self._log)

    def truncate(self, end_offset: int) -> None:
        """Keep the batches of the log that end at or before end_offset."""
        self._cut(length_below(bytes(self._log), end_offset))

    def _cut(self, end_bytes: int) -> None:
        del self._log[end_bytes:]
        self._synced_bytes = min(len(self._log), self._synced_bytes)

    def save(self, snapshot: Snapshot) -> None:
        """Replace the snapshot."""
        self._snapshot = snapshot

    def change_start(self, effect: AdvanceLogStart | RestartLog) -> None:
        """Remove the batches at the log's start that a snapshot covers, or all of them."""
        log = bytes(self._log)
        self._keep(log[length_below(log, effect.start_offset) :] if isinstance(effect, AdvanceLogStart) else b"")

    def _keep(self, log: bytes | bytearray) -> None:
        """Replace the log, durably."""
        self._log = bytearray(log)
        self._synced_bytes = len(self._log)

    def persist(self, election: Election) -> None:
        """Replace the election state."""
        self._election = election
        if not self._settings.has("quorum-state-not-synced"):
            self._synced_election = election

    def lose_unsynced(self, draw: Callable[[int], int]) -> None:
        """A power failure: of what was not synced, draw(n) of n bytes are left, which tears a batch."""
        unsynced = len(self._log) - self._synced_bytes
        self._cut(self._synced_bytes + (draw(unsynced + 1) if unsynced else 0))
        self._synced_bytes = len(self._log)
        self._election = self._synced_election

    def forget_election(self) -> None:
        """A missing quorum-state."""
        self._election = self._synced_election = Election()

    def erase(self) -> None:
        """An empty disk in place of this one."""
        self._erasures += 1
        self._log.clear()
        self._synced_bytes, self._snapshot = 0, None
        self._election = self._synced_election = Election()


def _bytes_to_keep(log: bytes, settings: NodeSettings) -> int:
    """How much of the log a node starts with: its intact batches, but for mutants."""
    if settings.has("checksums-not-verified"):
        return max((head.end for head in heads(log)), default=0)
    if settings.has("restart-loses-last-batch"):
        return max((head.start for head in intact_heads(log)), default=0)
    return intact_length(log)


def directory_id_of(node: int) -> uuid.UUID:
    """The id of a node's first directory."""
    return uuid.UUID(int=node)
