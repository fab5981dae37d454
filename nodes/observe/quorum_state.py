"""Reads the quorum-state file, Kafka's own record of a node's epoch, leader and vote.

One JSON line; version 0 (static voters) has votedId, version 1 (KIP-853) has votedDirectoryId besides. Nodes write it
to a temporary file and rename it, so a reader never sees half of one. Ids are -1 where there is none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from harness.model import PeerFailure


@dataclass(frozen=True, slots=True)
class QuorumState:
    """What a node has promised durably: the epoch, whom it voted for in it, and who leads it."""

    epoch: int
    leader: int | None
    voted: int | None


def read_quorum_state(path: Path) -> QuorumState | None:
    """The file's content, None where there is no file. Raises PeerFailure where it is not a quorum-state."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(text)
        return QuorumState(int(fields["leaderEpoch"]), _known(fields["leaderId"]), _known(fields["votedId"]))
    except (ValueError, KeyError, TypeError) as error:
        raise PeerFailure(f"reading {path}: expected Kafka's quorum-state in JSON, came {text[:80]!r}") from error


def _known(number: int) -> int | None:
    return None if int(number) < 0 else int(number)
