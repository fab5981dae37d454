"""The quorum's state machine as transition tables, before and after KIP-996.

The tables are data. The reference core executes them, tests enumerate them, the quorum check compares observed
transitions with the rules that follow from them (harness.model.transition_rules), and the diagrams in
docs/architecture.md are generated from them. Sources: KIP-996 "QuorumState changes" (both tables), and Kafka's
QuorumState for cases that the KIP leaves out; the note of such a row says so.

A granted vote is not a state of its own: an Unattached or Prospective node that granted a standard vote keeps the
candidate's id (Kafka's votedKey). Kafka up to 3.8 logs an Unattached node that has voted as `Voted`; we read it as
Unattached with a vote.

    table = KIP_996
    table.target(State.FOLLOWER, Cause.FETCH_TIMEOUT).target    # State.PROSPECTIVE
    table.allows(State.FOLLOWER, State.CANDIDATE, 1, 2)          # False
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from harness.model.transition_rules import AllowedStep, EpochRule, TransitionRules, admits


class State(Enum):
    """A node's role in the quorum; the values are the names in Kafka's logs."""

    UNATTACHED = "Unattached"
    FOLLOWER = "Follower"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    RESIGNED = "Resigned"


class Cause(Enum):
    """Why a node leaves its state."""

    HIGHER_EPOCH = "learned of an election with a higher epoch"
    VOTE_GRANTED = "granted a standard vote"
    LEADER_DISCOVERED = "discovered a leader"
    FETCH_TIMEOUT = "the fetch timeout expired"
    ELECTION_TIMEOUT = "the election timeout expired"
    ELECTION_TIMEOUT_LEADER_KNOWN = "the election timeout expired and a leader is known"
    ELECTION_LOST = "a majority is no longer possible"
    ELECTION_LOST_LEADER_KNOWN = "a majority is no longer possible and a leader is known"
    MAJORITY_OF_PRE_VOTES = "a majority granted the pre-vote"
    PRE_VOTE_UNSUPPORTED = "a voter does not support Pre-Vote"
    MAJORITY_OF_VOTES = "a majority granted the vote"
    CHECK_QUORUM = "no majority fetched in time"
    SHUTDOWN = "graceful shutdown"
    REASSIGNED = "the voters are about to be without the leader"


@dataclass(frozen=True, slots=True)
class Transition:
    """One row: a node in source moves to target because of cause; epoch relates the new epoch to the old one."""

    source: State
    cause: Cause
    target: State
    epoch: EpochRule
    note: str = ""

    def admits(self, epoch_before: int, epoch_after: int) -> bool:
        """Whether the two epochs satisfy this row's rule."""
        return admits(self.epoch, epoch_before, epoch_after)


@dataclass(frozen=True, slots=True)
class TransitionTable:
    """A named set of rows; (source, cause) is unique, so that a core can execute the table."""

    name: str
    rows: tuple[Transition, ...]

    def __post_init__(self) -> None:
        keys = [(row.source, row.cause) for row in self.rows]
        assert len(keys) == len(set(keys)), f"{self.name}: two rows share a source and a cause"

    def target(self, source: State, cause: Cause) -> Transition | None:
        """The row for this source and cause; None if the cause does not move a node out of source."""
        return next((row for row in self.rows if row.source is source and row.cause is cause), None)

    def allows(self, source: State, target: State, epoch_before: int, epoch_after: int) -> bool:
        """Whether some row explains the observed transition from source to target."""
        return any(
            row.source is source and row.target is target and row.admits(epoch_before, epoch_after) for row in self.rows
        )


_U, _F, _P = State.UNATTACHED, State.FOLLOWER, State.PROSPECTIVE
_C, _L, _R = State.CANDIDATE, State.LEADER, State.RESIGNED
_FOLLOWER_TO_SAME_LEADER = "QuorumState: a Follower that learns its leader's endpoints again keeps the epoch"

KIP_595 = TransitionTable(
    "KIP-595 (Kafka up to 3.9)",
    (
        Transition(_U, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(_U, Cause.VOTE_GRANTED, _U, "same or higher", "printed as Voted up to 3.8"),
        Transition(_U, Cause.ELECTION_TIMEOUT, _C, "next"),
        Transition(_U, Cause.LEADER_DISCOVERED, _F, "same or higher"),
        Transition(_C, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(_C, Cause.ELECTION_TIMEOUT, _C, "next"),
        Transition(_C, Cause.MAJORITY_OF_VOTES, _L, "same"),
        Transition(_C, Cause.LEADER_DISCOVERED, _F, "same or higher", "missing in KIP-595, added by KIP-996"),
        Transition(_L, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(_L, Cause.SHUTDOWN, _R, "same"),
        Transition(_L, Cause.REASSIGNED, _R, "same", "KIP-642: the leader is the last voter to be removed"),
        Transition(_L, Cause.CHECK_QUORUM, _R, "same", "KAFKA-15489, from 3.7"),
        Transition(_L, Cause.LEADER_DISCOVERED, _F, "higher", "QuorumState: a leader learns of a later one at once"),
        Transition(_F, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(_F, Cause.FETCH_TIMEOUT, _C, "next"),
        Transition(_F, Cause.LEADER_DISCOVERED, _F, "same or higher", _FOLLOWER_TO_SAME_LEADER),
        Transition(_R, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(_R, Cause.VOTE_GRANTED, _U, "same or higher", "printed as Voted up to 3.8"),
        Transition(_R, Cause.ELECTION_TIMEOUT, _C, "next"),
        Transition(_R, Cause.LEADER_DISCOVERED, _F, "same or higher"),
    ),
)

KIP_996 = TransitionTable(
    "KIP-996 (Kafka from 4.0)",
    (
        Transition(_U, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(_U, Cause.VOTE_GRANTED, _U, "same"),
        Transition(_U, Cause.ELECTION_TIMEOUT, _P, "same"),
        Transition(_U, Cause.LEADER_DISCOVERED, _F, "same or higher"),
        Transition(_P, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(_P, Cause.VOTE_GRANTED, _P, "same"),
        Transition(_P, Cause.MAJORITY_OF_PRE_VOTES, _C, "next"),
        Transition(_P, Cause.PRE_VOTE_UNSUPPORTED, _C, "next"),
        Transition(_P, Cause.ELECTION_LOST, _U, "same"),
        Transition(_P, Cause.ELECTION_LOST_LEADER_KNOWN, _F, "same"),
        Transition(_P, Cause.ELECTION_TIMEOUT, _U, "same"),
        Transition(_P, Cause.ELECTION_TIMEOUT_LEADER_KNOWN, _F, "same"),
        Transition(_P, Cause.LEADER_DISCOVERED, _F, "same or higher"),
        Transition(_C, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(_C, Cause.ELECTION_TIMEOUT, _P, "same"),
        Transition(_C, Cause.ELECTION_LOST, _P, "same"),
        Transition(_C, Cause.MAJORITY_OF_VOTES, _L, "same"),
        Transition(_C, Cause.LEADER_DISCOVERED, _F, "same or higher"),
        Transition(_L, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(_L, Cause.SHUTDOWN, _R, "same"),
        Transition(_L, Cause.REASSIGNED, _R, "same", "KIP-642: the leader is the last voter to be removed"),
        Transition(_L, Cause.CHECK_QUORUM, _R, "same", "KAFKA-15489"),
        Transition(_L, Cause.LEADER_DISCOVERED, _F, "higher", "QuorumState: a leader learns of a later one at once"),
        Transition(_F, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(_F, Cause.FETCH_TIMEOUT, _P, "same"),
        Transition(_F, Cause.LEADER_DISCOVERED, _F, "same or higher", _FOLLOWER_TO_SAME_LEADER),
        Transition(_R, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(_R, Cause.ELECTION_TIMEOUT, _U, "next"),
        Transition(_R, Cause.LEADER_DISCOVERED, _F, "higher"),
    ),
)

OBSERVER = TransitionTable(
    "observers (every version)",
    (
        Transition(_U, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(
            _U, Cause.VOTE_GRANTED, _U, "same", "where voters change: a node may vote before it knows (KIP-853)"
        ),
        Transition(_U, Cause.LEADER_DISCOVERED, _F, "same or higher"),
        Transition(_F, Cause.HIGHER_EPOCH, _U, "higher"),
        Transition(_F, Cause.FETCH_TIMEOUT, _U, "same"),
        Transition(_F, Cause.LEADER_DISCOVERED, _F, "same or higher"),
    ),
)

START_STATES = frozenset({_U, _F, _C, _R})
"""The states in which a restarted process may start (Kafka's QuorumState.initialize, rows PV-05 and PV-41)."""


def _rules(
    table: TransitionTable, observer: TransitionRules | None = None, keeps_votes: bool = False
) -> TransitionRules:
    steps = (AllowedStep(row.source.value, row.target.value, row.epoch) for row in table.rows)
    start_states = tuple(state.value for state in State if state in START_STATES)
    return TransitionRules(table.name, tuple(dict.fromkeys(steps)), start_states, observer, keeps_votes)


OBSERVER_RULES = _rules(OBSERVER)
KIP_595_RULES = _rules(KIP_595, OBSERVER_RULES)
KIP_996_RULES = _rules(KIP_996, OBSERVER_RULES, keeps_votes=True)
"""With KIP-996 a node that becomes a follower keeps its vote (section "FollowerState changes"); before, it did not."""
