"""The state a node starts in, for each quorum-state that its disk can hold (Kafka's QuorumState.initialize)."""

from __future__ import annotations

import pytest

from harness.model.quorum_states import OBSERVER, State
from nodes.reference.core.events import Election
from nodes.wire.batches import Record, encode_batch
from tests.support.nodes.quorum_simulation import Simulation

OBSERVER_ID = 4
OUTSIDER = 9
"""A node that is neither a voter nor the node under test."""

QUORUM_STATES = {
    "no file": Election(),
    "epoch only": Election(5),
    "leader is a voter": Election(5, 2),
    "leader is itself": Election(5, 4),
    "leader is an outsider": Election(5, OUTSIDER),
    "vote for a voter": Election(5, None, 2),
    "vote for itself": Election(5, None, 4),
    "vote for itself, leader is a voter": Election(5, 2, 4),
    "vote for itself, leader is itself": Election(5, 4, 4),
    "vote for itself, leader is an outsider": Election(5, OUTSIDER, 4),
}
STARTS_OF_AN_OBSERVER = {
    "no file": (State.UNATTACHED, 0, None, None),
    "epoch only": (State.UNATTACHED, 5, None, None),
    "leader is a voter": (State.FOLLOWER, 5, 2, None),
    "leader is itself": (State.UNATTACHED, 6, None, None),
    "leader is an outsider": (State.UNATTACHED, 5, OUTSIDER, None),
    "vote for a voter": (State.UNATTACHED, 5, None, 2),
    "vote for itself": (State.UNATTACHED, 5, None, 4),
    "vote for itself, leader is a voter": (State.FOLLOWER, 5, 2, 4),
    "vote for itself, leader is itself": (State.UNATTACHED, 6, None, None),
    "vote for itself, leader is an outsider": (State.UNATTACHED, 5, OUTSIDER, 4),
}
STARTS_OF_A_VOTER = STARTS_OF_AN_OBSERVER | {
    "leader is itself": (State.RESIGNED, 5, 4, None),
    "vote for itself": (State.CANDIDATE, 5, None, 4),
    "vote for itself, leader is itself": (State.RESIGNED, 5, 4, 4),
}


def start(quorum: Simulation, node: int, stored: Election) -> tuple[State, int, int | None, int | None]:
    """Start a node from this quorum-state; returns its state, epoch, leader and vote."""
    quorum.members[node].election = stored
    quorum.restart(node)
    state = quorum.node(node).state
    return state.kind, state.epoch, state.leader_id, state.voted_id


@pytest.mark.parametrize("name", QUORUM_STATES)
def test_observer_starts_unattached_or_as_a_follower(name: str) -> None:
    quorum = Simulation(observers=1, started=[])
    assert start(quorum, OBSERVER_ID, QUORUM_STATES[name]) == STARTS_OF_AN_OBSERVER[name]
    assert quorum.members[OBSERVER_ID].election == Election(*STARTS_OF_AN_OBSERVER[name][1:])


@pytest.mark.parametrize("name", QUORUM_STATES)
def test_voter_starts_in_the_state_of_kafkas_initialize(name: str) -> None:
    quorum = Simulation(size=4, started=[])
    assert start(quorum, 4, QUORUM_STATES[name]) == STARTS_OF_A_VOTER[name]


@pytest.mark.parametrize("is_voter", [True, False], ids=["voter", "observer"])
@pytest.mark.parametrize("name", QUORUM_STATES)
def test_node_starts_unattached_in_the_epoch_of_its_log_if_that_is_later(name: str, is_voter: bool) -> None:
    quorum = Simulation(size=4 if is_voter else 3, observers=0 if is_voter else 1, started=[])
    quorum.members[4].log += encode_batch([Record(None, b"")], 0, 7, 0)
    assert start(quorum, 4, QUORUM_STATES[name]) == (State.UNATTACHED, 7, None, None)


@pytest.mark.parametrize("name", QUORUM_STATES)
def test_observer_follows_the_quorum_from_every_initial_state(name: str) -> None:
    """It takes only transitions of the observers' table, and none of its requests disturbs the voters."""
    quorum = Simulation(seed=3, observers=1, started=[1, 2, 3], max_idle_interval_ms=0)
    for voter in (1, 2, 3):
        quorum.crash(voter)
        quorum.members[voter].election = Election(5)
        quorum.restart(voter)
    leader = quorum.elect()
    epochs = quorum.epochs()
    start(quorum, OBSERVER_ID, QUORUM_STATES[name])
    quorum.run(10_000)
    assert quorum.node(OBSERVER_ID).table is OBSERVER
    assert quorum.node(OBSERVER_ID).leader_id == leader
    assert quorum.node(OBSERVER_ID).log.end_offset == quorum.node(leader).log.end_offset
    assert {voter: quorum.epochs()[voter] for voter in epochs} == epochs
    assert quorum.violations == []


@pytest.mark.parametrize("name", QUORUM_STATES)
def test_observer_without_a_quorum_stays_in_its_epoch(name: str) -> None:
    quorum = Simulation(observers=1, started=[])
    _, epoch, _, _ = start(quorum, OBSERVER_ID, QUORUM_STATES[name])
    quorum.run(30_000)
    assert quorum.epochs() == {OBSERVER_ID: epoch}
    quorum.crash(OBSERVER_ID)
    quorum.restart(OBSERVER_ID)
    assert quorum.epochs() == {OBSERVER_ID: epoch}
    assert quorum.violations == []


def test_voter_whose_stored_leader_is_no_voter_takes_part_in_the_next_election() -> None:
    quorum = Simulation(seed=3, started=[])
    for voter in quorum.members:
        start(quorum, voter, Election(5, OUTSIDER))
    quorum.elect()
    assert quorum.violations == []
