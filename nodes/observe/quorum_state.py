"""Reads the quorum-state file: a node's durable epoch, leader and vote.

One line of JSON; version 0 (static voters) has votedId, version 1 (KIP-853) also votedDirectoryId. Nodes write a
temporary file and rename it, so a reader never sees an incomplete file. Unknown ids are -1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from harness.model import PeerFailure


@dataclass(frozen=True, slots=True)
class QuorumState:
    """A node's durable election state: the epoch, its leader and the node's vote in it."""

    epoch: int
    leader: int | None
    voted: int | None


def read_quorum_state(path: Path) -> QuorumState | None:
    """The file's content; None if there is no file.

    Raises PeerFailure if it is not a valid quorum-state, or if its disk fails.
    """
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:  # e.g. a file system that was shut down to lose what was not synced
        raise PeerFailure(f"reading {path}: {error.strerror}") from error
    try:
        fields = json.loads(text)
        return QuorumState(
            int(fields["leaderEpoch"]), _optional_id(fields["leaderId"]), _optional_id(fields["votedId"])
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PeerFailure(f"reading {path}: expected Kafka's quorum-state in JSON, found {text[:80]!r}") from error


def _optional_id(number: int) -> int | None:
    return None if int(number) < 0 else int(number)
