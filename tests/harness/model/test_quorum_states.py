"""Compares the state tables in the code with those in the documents, transition by transition and in both directions.

The literals below are the lists of KIP-996, section "QuorumState changes": the original states (KIP-595, left) and the
new ones (right). The code departs from them only where this module says so, with the reason.

Two conventions of the documents are translated. Their state Voted is an Unattached node with a vote in the code, so
"Voted: after granting a vote" is Unattached to Unattached. They write one line for several causes, which are one row
each here. An epoch of None means that the document does not relate the two epochs.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from harness.model.quorum_states import (
    KIP_595,
    KIP_595_RULES,
    KIP_996,
    KIP_996_RULES,
    OBSERVER,
    START_STATES,
    Cause,
    State,
    TransitionTable,
)
from harness.model.transition_rules import admits

U, F, P = State.UNATTACHED, State.FOLLOWER, State.PROSPECTIVE
C, L, R = State.CANDIDATE, State.LEADER, State.RESIGNED

Key = tuple[State, Cause, State]


class Documented(NamedTuple):
    """A transition as a document has it."""

    source: State
    cause: Cause
    target: State
    epoch: str | None = None


class Departure(NamedTuple):
    """How the code departs from a document: its epoch rule for the transition, and why."""

    epoch: str
    reason: str


KIP_595_TEXT = [
    # Resigned transitions to:
    Documented(R, Cause.HIGHER_EPOCH, U, "higher"),
    Documented(R, Cause.VOTE_GRANTED, U),
    Documented(R, Cause.ELECTION_TIMEOUT, C),
    Documented(R, Cause.LEADER_DISCOVERED, F, "same or higher"),
    # Unattached transitions to:
    Documented(U, Cause.HIGHER_EPOCH, U, "higher"),
    Documented(U, Cause.VOTE_GRANTED, U),
    Documented(U, Cause.ELECTION_TIMEOUT, C),
    Documented(U, Cause.LEADER_DISCOVERED, F, "same or higher"),
    # Candidate transitions to:
    Documented(C, Cause.HIGHER_EPOCH, U, "higher"),
    Documented(C, Cause.ELECTION_TIMEOUT, C),
    Documented(C, Cause.MAJORITY_OF_VOTES, L),
    # Leader transitions to:
    Documented(L, Cause.HIGHER_EPOCH, U, "higher"),
    Documented(L, Cause.SHUTDOWN, R),
    # Follower transitions to:
    Documented(F, Cause.HIGHER_EPOCH, U, "higher"),
    Documented(F, Cause.FETCH_TIMEOUT, C),
    Documented(F, Cause.LEADER_DISCOVERED, F, "higher"),
]

KIP_996_TEXT = [
    # Resigned transitions to:
    Documented(R, Cause.HIGHER_EPOCH, U, "higher"),
    Documented(R, Cause.ELECTION_TIMEOUT, U, "next"),  # the epoch: section "ResignedState changes"
    Documented(R, Cause.LEADER_DISCOVERED, F, "higher"),
    # Unattached transitions to:
    Documented(U, Cause.HIGHER_EPOCH, U, "higher"),
    Documented(U, Cause.VOTE_GRANTED, U),
    Documented(U, Cause.ELECTION_TIMEOUT, P),
    Documented(U, Cause.LEADER_DISCOVERED, F, "same or higher"),
    # Prospective transitions to:
    Documented(P, Cause.HIGHER_EPOCH, U, "higher"),
    Documented(P, Cause.ELECTION_LOST, U),
    Documented(P, Cause.ELECTION_TIMEOUT, U),
    Documented(P, Cause.MAJORITY_OF_PRE_VOTES, C, "next"),  # the epoch: section "New ProspectiveState"
    Documented(P, Cause.LEADER_DISCOVERED, F, "higher"),
    Documented(P, Cause.ELECTION_LOST_LEADER_KNOWN, F),
    Documented(P, Cause.ELECTION_TIMEOUT_LEADER_KNOWN, F),
    # Candidate transitions to:
    Documented(C, Cause.HIGHER_EPOCH, U, "higher"),
    Documented(C, Cause.ELECTION_TIMEOUT, P),
    Documented(C, Cause.ELECTION_LOST, P),
    Documented(C, Cause.MAJORITY_OF_VOTES, L),
    Documented(C, Cause.LEADER_DISCOVERED, F, "same or higher"),
    # Leader transitions to:
    Documented(L, Cause.HIGHER_EPOCH, U, "higher"),
    Documented(L, Cause.SHUTDOWN, R),
    # Follower transitions to:
    Documented(F, Cause.HIGHER_EPOCH, U, "higher"),
    Documented(F, Cause.FETCH_TIMEOUT, P),
    Documented(F, Cause.LEADER_DISCOVERED, F, "higher"),
]

LEADER_DEPARTURES = {
    (L, Cause.REASSIGNED, R): Departure(
        "same", "KIP-642: the leader is the last voter to be removed; the KIPs precede it"
    ),
    (L, Cause.CHECK_QUORUM, R): Departure("same", "Check Quorum, KAFKA-15489: Kafka 3.7; the lists omit it"),
    (L, Cause.LEADER_DISCOVERED, F): Departure(
        "higher", "QuorumState.transitionToFollower: a leader that learns of a later leader follows it at once"
    ),
}

SAME_LEADER = "QuorumState.transitionToFollower: a Follower that learns new endpoints of its leader keeps the epoch"

KIP_595_DEPARTURES = {
    **LEADER_DEPARTURES,
    (C, Cause.LEADER_DISCOVERED, F): Departure("same or higher", 'KIP-996: "missed in original docs"'),
    (F, Cause.LEADER_DISCOVERED, F): Departure("same or higher", SAME_LEADER),
}

KIP_996_DEPARTURES = {
    **LEADER_DEPARTURES,
    (F, Cause.LEADER_DISCOVERED, F): Departure("same or higher", SAME_LEADER),
    (P, Cause.VOTE_GRANTED, P): Departure(
        "same", 'in prose only, section "New ProspectiveState": Prospective with votedKey after a standard vote'
    ),
    (P, Cause.PRE_VOTE_UNSUPPORTED, C): Departure(
        "next", 'in prose only, section "Pre-Vote response handling": a voter that does not support Pre-Vote'
    ),
    (P, Cause.LEADER_DISCOVERED, F): Departure(
        "same or higher",
        'section "Rejected Alternatives": "any response with equal or greater epoch denoting a leader"',
    ),
}

TABLES = [
    pytest.param(KIP_595, KIP_595_TEXT, KIP_595_DEPARTURES, id="KIP-595"),
    pytest.param(KIP_996, KIP_996_TEXT, KIP_996_DEPARTURES, id="KIP-996"),
]


RULES = {rules.name: rules for rules in (KIP_595_RULES, KIP_996_RULES)}


def rules_of(table: TransitionTable) -> dict[Key, str]:
    return {(row.source, row.cause, row.target): row.epoch for row in table.rows}


@pytest.mark.parametrize(("table", "text", "departures"), TABLES)
def test_each_documented_transition_is_in_the_code(
    table: TransitionTable, text: list[Documented], departures: dict[Key, Departure]
) -> None:
    rules = rules_of(table)
    assert len({row[:3] for row in text}) == len(text)
    for *key, epoch in text:
        in_code = rules.get((key[0], key[1], key[2]))
        assert in_code is not None, f"{key}: in the document, not in the code"
        assert epoch in (None, in_code) or tuple(key) in departures, f"{key}: epoch {epoch} became {in_code}"


@pytest.mark.parametrize(("table", "text", "departures"), TABLES)
def test_each_transition_in_the_code_is_documented_or_a_listed_departure(
    table: TransitionTable, text: list[Documented], departures: dict[Key, Departure]
) -> None:
    documented = {row[:3] for row in text}
    for key in rules_of(table):
        assert key in documented or key in departures, f"{key}: in the code, not in the document"


@pytest.mark.parametrize(("table", "text", "departures"), TABLES)
def test_each_listed_departure_is_one(
    table: TransitionTable, text: list[Documented], departures: dict[Key, Departure]
) -> None:
    rules = rules_of(table)
    documented = {row[:3]: row.epoch for row in text}
    for key, departure in departures.items():
        assert rules[key] == departure.epoch
        assert documented.get(key) != departure.epoch, f"{key}: the document agrees, it is no departure"


@pytest.mark.parametrize(("table", "text", "departures"), TABLES)
def test_steps_between_states_are_allowed_exactly_as_the_document_and_its_departures_say(
    table: TransitionTable, text: list[Documented], departures: dict[Key, Departure]
) -> None:
    """Every pair of states, with the epoch kept, raised by one, raised by more, and lowered."""
    rules = rules_of(table)
    expected = {(source, target) for source, _, target in [*(row[:3] for row in text), *departures]}
    relations = {
        0: {"same", "same or higher"},
        1: {"next", "higher", "same or higher"},
        2: {"higher", "same or higher"},
    }
    for source in State:
        for target in State:
            own = {epoch for (begin, _, end), epoch in rules.items() if (begin, end) == (source, target)}
            assert bool(own) is ((source, target) in expected)
            ends = (source.value, target.value)
            for raised in (-1, 0, 1, 2):
                legal = bool(own & relations.get(raised, set()))
                steps = [step for step in RULES[table.name].steps if (step.source, step.target) == ends]
                allowed = any(admits(step.epoch, 5, 5 + raised) for step in steps)
                assert table.allows(source, target, 5, 5 + raised) is legal, f"{source} to {target} by {raised}"
                assert allowed is legal, f"the rules of the check: {source} to {target} by {raised}"


def test_only_a_prospective_becomes_a_candidate() -> None:
    """KIP-996's new invariant."""
    assert {row.source for row in KIP_996.rows if row.target is C} == {P}


def test_an_observer_becomes_neither_prospective_nor_candidate_nor_leader() -> None:
    """KIP-996, section "Observers"."""
    assert {row.target for row in OBSERVER.rows} == {U, F}


def test_a_process_starts_in_neither_prospective_nor_leader() -> None:
    """QuorumState.initialize: a leader restarts as Resigned, and a Prospective is not stored."""
    assert {U, F, C, R} == START_STATES
