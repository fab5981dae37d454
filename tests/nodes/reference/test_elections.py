"""Elections before and after KIP-996, in virtual time."""

from __future__ import annotations

import pytest

from harness.model.quorum_states import State
from nodes.reference.core import events
from nodes.reference.core.messages import VoteRequest
from nodes.reference.core.node import Node
from tests.support.nodes.quorum_simulation import Simulation

FULL_OMISSION_LINKS = {(1, 2), (1, 3), (2, 3), (2, 4), (3, 5)}
"""The links that are up in KIP-996's example of five servers."""


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("pre_vote", [True, False], ids=["kip-996", "kip-595"])
def test_quorum_elects_a_leader_that_all_nodes_follow(size: int, pre_vote: bool) -> None:
    quorum = Simulation(seed=size, size=size, pre_vote=pre_vote)
    leader = quorum.elect()
    quorum.run_until(lambda: all(quorum.node(node).leader_id == leader for node in quorum.members))
    assert quorum.violations == []


def test_isolated_follower_keeps_its_epoch_and_does_not_disrupt_on_return() -> None:
    """PV-01, the good side."""
    quorum = Simulation(seed=1)
    leader, before = quorum.elect(), quorum.epochs()
    follower = next(node for node in quorum.members if node != leader)
    quorum.isolate(follower)
    quorum.run(12_000)
    assert quorum.epochs()[follower] == before[leader]
    quorum.heal()
    quorum.run(5_000)
    assert (quorum.leader(), quorum.epochs()) == (leader, dict.fromkeys(quorum.members, before[leader]))
    assert quorum.violations == []


def test_without_pre_vote_an_isolated_follower_raises_its_epoch_and_deposes_the_leader() -> None:
    """PV-01, the bad side."""
    quorum = Simulation(seed=1, pre_vote=False)
    leader = quorum.elect()
    epoch = quorum.epochs()[leader]
    follower = next(node for node in quorum.members if node != leader)
    quorum.isolate(follower)
    quorum.run(12_000)
    inflated = quorum.epochs()[follower]
    assert inflated >= epoch + 3
    quorum.heal()
    quorum.run(5_000)
    assert quorum.elect() is not None
    assert min(quorum.epochs().values()) >= inflated
    assert quorum.violations == []


def run_full_omission(pre_vote: bool) -> tuple[int, int]:
    """PV-02 for a minute: how far the epoch rose, and how often leadership changed."""
    quorum = Simulation(seed=7, size=5, started=[3, 1, 2], pre_vote=pre_vote)
    quorum.run_until(lambda: quorum.leader() is not None)
    for node in (4, 5):
        quorum.restart(node)
    while quorum.elect() != 3:
        leader = quorum.leader()
        assert leader is not None
        quorum.crash(leader)
        quorum.run_until(lambda crashed=leader: quorum.leader() not in (None, crashed))
        quorum.restart(leader)
    quorum.run(3_000)
    epoch, changes = quorum.epochs()[3], len(quorum.leaders)
    quorum.cut(*((a, b) for a in range(1, 6) for b in range(a + 1, 6) if (a, b) not in FULL_OMISSION_LINKS))
    quorum.run(60_000)
    assert quorum.violations == []
    return max(quorum.epochs().values()) - epoch, len(quorum.leaders) - changes


def test_leader_is_stable_in_the_full_omission_topology() -> None:
    assert run_full_omission(pre_vote=True) == (0, 0)


def test_without_pre_vote_leadership_alternates_in_the_full_omission_topology() -> None:
    epochs, changes = run_full_omission(pre_vote=False)
    assert epochs >= 5
    assert changes >= 2


def test_leader_resigns_when_fetches_stop_and_raises_its_epoch_by_one() -> None:
    """LP-01 and PV-16: Resigned after 1.5 fetch timeouts, then Unattached in the next epoch, which it keeps."""
    quorum = Simulation(seed=3)
    leader = quorum.elect()
    epoch, cut_ms = quorum.epochs()[leader], quorum.now_ms
    quorum.isolate(leader)
    quorum.run_until(lambda: quorum.node(leader).state.kind is State.RESIGNED)
    assert 2_000 < quorum.now_ms - cut_ms <= 3_000
    quorum.run(20_000)
    assert quorum.epochs()[leader] == epoch + 1
    assert quorum.violations == []


def test_without_check_quorum_an_isolated_leader_never_resigns() -> None:
    quorum = Simulation(seed=3, check_quorum=False)
    leader = quorum.elect()
    quorum.isolate(leader)
    quorum.run(30_000)
    assert quorum.node(leader).state.kind is State.LEADER


@pytest.mark.parametrize("denies", [True, False])
def test_follower_that_fetched_denies_pre_votes_if_the_switch_is_on(denies: bool) -> None:
    """PV-22, and PV-29's bad side."""
    quorum = Simulation(seed=5, follower_denies_pre_vote=denies)
    leader = quorum.elect()
    quorum.run(1_000)
    follower, prospective = [node for node in quorum.members if node != leader]
    assert quorum.invoke(follower, pre_vote(quorum, follower, prospective)).response.granted is not denies


def pre_vote(quorum: Simulation, voter: int, prospective: int) -> VoteRequest:
    """A pre-vote request in the voter's epoch, with a log as long as the voter's."""
    log = quorum.node(voter).log
    return VoteRequest("test", voter, prospective, quorum.epochs()[voter], log.last_epoch, log.end_offset, True)


def test_prospective_becomes_candidate_at_once_when_a_voter_does_not_support_pre_vote() -> None:
    """PV-25: the pre-vote of node 1 fails with UNSUPPORTED_VERSION at its peers."""
    settings = Simulation(size=3, started=[]).members[1].settings
    node = Node(settings, events.Stored(events.Election()), lambda low, _: low, 0)
    node.handle(events.Tick(), 0)
    sent = [effect for effect in node.handle(events.Tick(), 1_000) if isinstance(effect, events.Send)]
    assert [effect.request.pre_vote for effect in sent] == [True, True]
    answers = node.handle(events.Failed(2, sent[0].request_id, unsupported_version=True), 1_001)
    assert (node.state.kind, node.state.epoch) == (State.CANDIDATE, 1)
    votes = [effect.request for effect in answers if isinstance(effect, events.Send)]
    assert [(vote.replica_epoch, vote.pre_vote) for vote in votes] == [(1, False)] * 2


def test_vote_is_durable_before_the_response_is_sent() -> None:
    quorum = Simulation(seed=2, started=[1])
    member = quorum.members[1]
    member.effects.clear()
    assert quorum.invoke(1, VoteRequest("test", 1, 2, 5, 0, 0)).response.granted
    assert (member.election.epoch, member.election.voted_id) == (5, 2)
    relevant = [name for name in member.effects if name in ("PersistElection", "Reply")]
    assert relevant == ["PersistElection", "PersistElection", "Reply"]  # the epoch, the vote, the response


@pytest.mark.parametrize(("mutant", "is_granted"), [(None, False), ("vote-forgotten-on-restart", True)])
def test_second_candidate_of_an_epoch_is_rejected_after_a_restart(mutant: str | None, is_granted: bool) -> None:
    """PV-15: the mutant forgets its vote."""
    quorum = Simulation(seed=2, started=[1], mutant=mutant, read_mode="read-index")
    assert quorum.invoke(1, VoteRequest("test", 1, 2, 5, 0, 0)).response.granted
    quorum.crash(1)
    quorum.restart(1)
    assert quorum.invoke(1, VoteRequest("test", 1, 3, 5, 0, 0)).response.granted is is_granted


def test_leader_that_shuts_down_hands_over_without_a_timeout() -> None:
    quorum = Simulation(seed=4)
    leader = quorum.elect()
    quorum.run(1_000)
    stopped_ms = quorum.now_ms
    quorum.stop(leader)
    quorum.run_until(lambda: quorum.leader() not in (None, leader))
    assert quorum.now_ms - stopped_ms < 1_500
    assert quorum.members[leader].halted == "gracefully"
    assert quorum.violations == []


@pytest.mark.parametrize(
    ("pre_vote", "last_epoch", "error"),
    [(True, 7, 0), (True, 8, 42), (False, 6, 0), (False, 7, 42)],
    ids=["pre-vote, same epoch", "pre-vote, later epoch", "vote, earlier epoch", "vote, same epoch"],
)
def test_vote_request_is_invalid_if_the_log_is_ahead_of_its_epoch(pre_vote: bool, last_epoch: int, error: int) -> None:
    """PV-40."""
    quorum = Simulation(seed=2, started=[1])
    request = VoteRequest("test", 1, 2, 7, last_epoch, 100, pre_vote)
    assert quorum.invoke(1, request).response.error == error


@pytest.mark.parametrize("old", [1, 2], ids=["one old voter", "two old voters"])
def test_quorum_of_voters_with_and_without_pre_vote_replaces_its_leader(old: int) -> None:
    """PV-25 and PV-27."""
    quorum = Simulation(seed=8, per_node={node: {"pre_vote": False} for node in range(1, old + 1)})
    leader = quorum.elect()
    quorum.run(1_000)
    quorum.crash(leader)
    quorum.run_until(lambda: quorum.leader() not in (None, leader))
    assert quorum.violations == []


def test_observer_follows_and_never_starts_an_election() -> None:
    """PV-18."""
    quorum = Simulation(seed=9, observers=1)
    leader = quorum.elect()
    quorum.run(1_000)
    assert quorum.node(4).log.end_offset == quorum.node(leader).log.end_offset
    quorum.isolate(4)
    quorum.run(30_000)
    assert quorum.epochs()[4] == quorum.epochs()[leader]
    quorum.heal()
    quorum.run(5_000)
    assert quorum.node(4).log.end_offset == quorum.node(leader).log.end_offset
    assert {after for node, _, after, _, _ in quorum.transitions if node == 4} == {State.UNATTACHED, State.FOLLOWER}
    assert quorum.violations == []
