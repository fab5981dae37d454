"""The states of a node, as frozen values.

Contains the fields and their meaning. The transitions are in harness.model.quorum_states; state_machine and elections
implement them. Deadlines are times of the core's clock. What is the same in all values of a state is a property: mypyc,
which compiles this module for simulations, takes a class variable of a dataclass for a field.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.model.quorum_states import State
from nodes.reference.core.settings import NEVER_MS


@dataclass(frozen=True, slots=True)
class Unattached:
    """Knows no leader that it can follow; may have voted. leader_id is set only for a leader without an endpoint."""

    epoch: int
    leader_id: int | None
    voted_id: int | None
    deadline_ms: int
    timeout_ms: int

    @property
    def kind(self) -> State:
        return State.UNATTACHED


@dataclass(frozen=True, slots=True)
class Follower:
    """Fetches from leader_id. has_fetched: a fetch has succeeded since it became a follower (KIP-996)."""

    epoch: int
    leader_id: int
    voted_id: int | None
    deadline_ms: int
    has_fetched: bool = False

    @property
    def kind(self) -> State:
        return State.FOLLOWER


@dataclass(frozen=True, slots=True)
class Prospective:
    """Requests pre-votes without raising its epoch. It may still know a leader, and may have voted.

    retries counts the candidacies since it last was neither Prospective nor Candidate.
    """

    epoch: int
    leader_id: int | None
    voted_id: int | None
    deadline_ms: int
    timeout_ms: int
    granted: frozenset[int]
    retries: int = 0
    rejected: frozenset[int] = frozenset()

    @property
    def kind(self) -> State:
        return State.PROSPECTIVE


@dataclass(frozen=True, slots=True)
class Candidate:
    """Requests votes in an epoch it raised, and has voted for itself. retries counts candidacies in a row.

    Rounds of pre-votes between them do not interrupt the row.
    """

    epoch: int
    voted_id: int
    deadline_ms: int
    timeout_ms: int
    retries: int
    granted: frozenset[int]
    rejected: frozenset[int] = frozenset()
    is_backing_off: bool = False

    @property
    def kind(self) -> State:
        return State.CANDIDATE

    @property
    def leader_id(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Leader:
    """Leads epoch, whose first record is at start_offset; granted are the voters that granted their vote."""

    epoch: int
    leader_id: int
    voted_id: int | None
    start_offset: int
    granted: frozenset[int]

    @property
    def kind(self) -> State:
        return State.LEADER

    @property
    def deadline_ms(self) -> int:
        return NEVER_MS


@dataclass(frozen=True, slots=True)
class Resigned:
    """Led epoch and will not lead it again. unacknowledged voters have not acknowledged EndQuorumEpoch yet."""

    epoch: int
    leader_id: int
    voted_id: int | None
    deadline_ms: int
    timeout_ms: int
    unacknowledged: frozenset[int]
    successors: tuple[int, ...]

    @property
    def kind(self) -> State:
        return State.RESIGNED


VoteSeeker = Prospective | Candidate
QuorumState = Unattached | Follower | Prospective | Candidate | Leader | Resigned
