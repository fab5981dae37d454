"""The state that the parts of a node share: the time of the event, the log and its voters, and the list of effects.

Contains no protocol decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nodes.reference.core.events import (
    AppendLog,
    Draw,
    Effect,
    Note,
    SaveSnapshot,
    Snapshot,
    Stored,
    TruncateLog,
)
from nodes.reference.core.records.applied import AppliedMetadata
from nodes.reference.core.records.log import BEGINNING, Log
from nodes.reference.core.records.snapshots import contents
from nodes.reference.core.settings import NodeSettings
from nodes.reference.core.voters import Voters


@dataclass(slots=True)
class Context:
    """now_ms is the shell's monotonic clock at the current event; wall_offset_ms converts it to wall-clock time."""

    settings: NodeSettings
    draw: Draw
    log: Log
    voters: Voters
    wall_offset_ms: int = 0
    now_ms: int = 0
    turn: int = 0  # counts events, and so orders those within one millisecond
    located: set[int] = field(default_factory=set)  # the nodes whose address is known
    has_asked_all: bool = False  # whether every known address was asked for a leader, and answered or did not
    metadata: AppliedMetadata = field(default_factory=AppliedMetadata)
    snapshot: Snapshot | None = None  # the latest
    effects: list[Effect] = field(default_factory=list)

    @staticmethod
    def restored(settings: NodeSettings, stored: Stored, draw: Draw, now_ms: int, wall_offset_ms: int) -> Context:
        """The state with which a node starts. Raises PeerFailure for a snapshot that is not complete."""
        snapshot = stored.snapshot
        found = None if snapshot is None else contents(snapshot.data)
        log = Log(stored.log, BEGINNING if snapshot is None else snapshot.id)
        voters = Voters(settings, log, stored, None if found is None else found.assignment)
        metadata = AppliedMetadata(None if found is None else found.image, log.start.end_offset)
        return Context(settings, draw, log, voters, wall_offset_ms, now_ms, metadata=metadata, snapshot=snapshot)

    def emit(self, effect: Effect) -> None:
        """Add an effect after all previous ones."""
        self.effects.append(effect)

    def append(self, data: bytes) -> None:
        """Append complete batches to the log."""
        self.log.append(data)
        self.voters.appended(data)
        self.emit(AppendLog(data))

    def truncate(self, offset: int) -> None:
        """Truncate the log to the batches that end at or before offset."""
        self.log.truncate(offset)
        self.voters.truncated()
        self.emit(TruncateLog(self.log.end_offset))

    def save(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of earlier ones."""
        self.snapshot = snapshot
        self.emit(SaveSnapshot(snapshot))

    def note(self, text: str, logger: str = "KafkaRaftClient") -> None:
        """Add a log line."""
        self.effects.append(Note(text, logger))

    @property
    def wall_ms(self) -> int:
        """The wall-clock time of the current event, for time stamps that people and tools read."""
        return self.now_ms + self.wall_offset_ms

    def take_effects(self) -> list[Effect]:
        """Return and clear the effects."""
        taken, self.effects = self.effects, []
        return taken

    def draw_election_timeout_ms(self) -> int:
        """Random in [T, 2T), as in Kafka."""
        timeout_ms = self.settings.election_timeout_ms
        return self.draw(timeout_ms, 2 * timeout_ms) if timeout_ms else 0
