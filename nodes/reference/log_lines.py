"""Log lines in Kafka's format, so that the harness parses them as it parses Kafka's logs."""

from __future__ import annotations

from datetime import UTC, datetime

from nodes.reference.core.events import Note
from nodes.reference.core.partitions import events as events_of_partitions

_PACKAGE = "org.apache.kafka.raft"
_BROKER_PACKAGE = "kafka.server"


def log_line(note: Note, node_id: int, wall_ns: int) -> str:
    """`[2026-11-21 05:17:00,123] INFO [RaftManager id=1] text (org.apache.kafka.raft.QuorumState)`, the time in UTC."""
    logger = note.logger if "." in note.logger else f"{_PACKAGE}.{note.logger}"
    return f"[{_stamp(wall_ns)}] {note.level} [RaftManager id={node_id}] {note.text} ({logger})"


def broker_log_line(note: events_of_partitions.Note, wall_ns: int) -> str:
    """A line about partitions; its text has the prefix that Kafka's class writes."""
    return f"[{_stamp(wall_ns)}] {note.level} {note.text} ({_BROKER_PACKAGE}.{note.logger})"


def _stamp(wall_ns: int) -> str:
    time = datetime.fromtimestamp(wall_ns // 1_000_000 / 1000, UTC)
    return f"{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03d}"
