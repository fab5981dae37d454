"""Log lines in Kafka's format: what the harness's reader of Kafka's logs reads, it reads here.

What may live here: pure functions from a note to a line.
"""

from __future__ import annotations

from datetime import UTC, datetime

from nodes.reference.core.events import Note

_PACKAGE = "org.apache.kafka.raft"


def log_line(note: Note, node_id: int, wall_ns: int) -> str:
    """`[2026-11-21 05:17:00,123] INFO [RaftManager id=1] text (org.apache.kafka.raft.QuorumState)`, the time in UTC."""
    moment = datetime.fromtimestamp(wall_ns // 1_000_000 / 1000, UTC)
    stamp = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"
    origin = note.logger if "." in note.logger else f"{_PACKAGE}.{note.logger}"
    return f"[{stamp}] {note.level} [RaftManager id={node_id}] {note.text} ({origin})"
