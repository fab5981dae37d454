"""Log lines in Kafka's format, so that the harness parses them as it parses Kafka's logs."""

from __future__ import annotations

from datetime import UTC, datetime

from nodes.reference.core.events import Note

_PACKAGE = "org.apache.kafka.raft"


def log_line(note: Note, node_id: int, wall_ns: int) -> str:
    """`[2026-11-21 05:17:00,123] INFO [RaftManager id=1] text (org.apache.kafka.raft.QuorumState)`, the time in UTC."""
    time = datetime.fromtimestamp(wall_ns // 1_000_000 / 1000, UTC)
    stamp = f"{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03d}"
    logger = note.logger if "." in note.logger else f"{_PACKAGE}.{note.logger}"
    return f"[{stamp}] {note.level} [RaftManager id={node_id}] {note.text} ({logger})"
