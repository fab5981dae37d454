"""One partition's replica on one broker: its log, its high watermark, and what the metadata says of it.

Contains what leaders and followers share. What they do is in leading.py and following.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nodes.reference.core.partitions.events import Effect, Note
from nodes.reference.core.partitions.log import ReplicaLog
from nodes.reference.core.partitions.messages import Assignment, TopicPartition
from nodes.reference.core.partitions.settings import PartitionSettings
from nodes.reference.core.partitions.truncation import FollowerLog

NEVER_MS = 2**62
"""A deadline that is never reached."""

NEVER_BEFORE_MS = -(2**62)
"""Earlier than any time."""


@dataclass(slots=True)
class Context:
    """What the parts of a broker share: the time of the current event, and the effects of it.

    changes counts what may let a waiting fetch be answered: appends, high watermarks that move, and assignments.
    """

    settings: PartitionSettings
    now_ms: int = 0
    changes: int = 0
    broker_epoch: int = -1  # of the broker's registration; -1 before
    effects: list[Effect] = field(default_factory=list)

    def emit(self, effect: Effect) -> None:
        """Add an effect after all previous ones."""
        self.effects.append(effect)

    def note(self, text: str, logger: str = "ReplicaManager") -> None:
        """Add a log line."""
        self.effects.append(Note(text, logger))

    def take_effects(self) -> list[Effect]:
        """Return and clear the effects."""
        taken, self.effects = self.effects, []
        return taken


class Replica:
    """A replica. The high watermark is never below the start of the log, and never beyond its end."""

    def __init__(self, context: Context, assignment: Assignment, log: ReplicaLog, stored_high_watermark: int) -> None:
        self.context, self.settings = context, context.settings
        self.assignment, self.log = assignment, log
        self.high_watermark = min(max(stored_high_watermark, log.start_offset), log.end_offset)

    @property
    def partition(self) -> TopicPartition:
        """Its topic and index."""
        return self.assignment.partition

    @property
    def follower_log(self) -> FollowerLog:
        """What a rule of truncation sees."""
        return FollowerLog(self.log.epochs, self.log.end_offset, self.high_watermark)

    def truncate(self, offset: int) -> None:
        """Truncate the log to whole batches that end at or before offset, and the high watermark with it."""
        log, end_offset = self.log, self.log.end_offset
        if offset < log.start_offset:
            log.truncate_fully_and_start_at(offset)
        else:
            log.truncate(offset)
        if log.end_offset != end_offset:
            self.context.note(f"[UnifiedLog partition={self.partition}] Truncating to offset {offset}", "UnifiedLog")
        self.high_watermark = max(min(self.high_watermark, log.end_offset), log.start_offset)

    def start_at(self, offset: int) -> None:
        """Remove everything: the leader's log begins after the end of this one."""
        self.log.truncate_fully_and_start_at(offset)
        self.context.note(
            f"[UnifiedLog partition={self.partition}] Truncate and start at offset {offset}", "UnifiedLog"
        )
        self.high_watermark = offset

    def advance_start(self, offset: int) -> None:
        """Records before this offset are gone on the leader, and so here, as far as the log goes."""
        self.log.advance_start(min(offset, self.log.end_offset))
        self.high_watermark = max(self.high_watermark, self.log.start_offset)
