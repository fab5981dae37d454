"""The states a node can be in, as frozen values.

What may live here: values and their fields' meaning. Which state follows which is harness.model.quorum_states' table;
what is done in each is quorum's and elections' business. Deadlines are moments of the clock that drives the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.model.quorum_states import State
from nodes.reference.core.settings import NEVER_MS


@dataclass(frozen=True, slots=True)
class Unattached:
    """Knows of no leader it could follow; may have voted."""

    kind: ClassVar[State] = State.UNATTACHED
    epoch: int
    leader_id: int | None
    voted_id: int | None
    deadline_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Follower:
    """Fetches from leader_id. has_fetched: a fetch has succeeded since it became a follower (KIP-996)."""

    kind: ClassVar[State] = State.FOLLOWER
    epoch: int
    leader_id: int
    voted_id: int | None
    deadline_ms: int
    has_fetched: bool = False


@dataclass(frozen=True, slots=True)
class Prospective:
    """Asks for pre-votes in an epoch it has not raised. It may still know a leader, and may have voted."""

    kind: ClassVar[State] = State.PROSPECTIVE
    epoch: int
    leader_id: int | None
    voted_id: int | None
    deadline_ms: int
    timeout_ms: int
    granted: frozenset[int]
    rejected: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Candidate:
    """Asks for votes in an epoch it raised, having voted for itself. retries counts candidacies in a row (KIP-595)."""

    kind: ClassVar[State] = State.CANDIDATE
    leader_id: ClassVar[None] = None
    epoch: int
    voted_id: int
    deadline_ms: int
    timeout_ms: int
    retries: int
    granted: frozenset[int]
    rejected: frozenset[int] = frozenset()
    is_backing_off: bool = False


@dataclass(frozen=True, slots=True)
class Leader:
    """Leads epoch, whose first record is at start_offset; granted are the voters that elected it."""

    kind: ClassVar[State] = State.LEADER
    deadline_ms: ClassVar[int] = NEVER_MS
    epoch: int
    leader_id: int
    voted_id: int | None
    start_offset: int
    granted: frozenset[int]


@dataclass(frozen=True, slots=True)
class Resigned:
    """Was the leader of epoch and will not be again. unacknowledged voters are still to be told (EndQuorumEpoch)."""

    kind: ClassVar[State] = State.RESIGNED
    epoch: int
    leader_id: int
    voted_id: int | None
    deadline_ms: int
    timeout_ms: int
    unacknowledged: frozenset[int]
    successors: tuple[int, ...]


VoteSeeker = Prospective | Candidate
QuorumState = Unattached | Follower | Prospective | Candidate | Leader | Resigned
