"""Elections before and after KIP-996, on virtual time."""

from __future__ import annotations

import pytest

from harness.model.quorum_states import State
from nodes.reference.core.messages import VoteRequest
from tests.support.nodes.quorum_simulation import Simulation

FULL_OMISSION = {(1, 2), (1, 3), (2, 3), (2, 4), (3, 5)}
"""The links that are up in KIP-996's example of five servers."""


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("pre_vote", [True, False], ids=["kip-996", "kip-595"])
def test_a_leader_is_elected_and_everyone_follows(size: int, pre_vote: bool) -> None:
    quorum = Simulation(seed=size, size=size, pre_vote=pre_vote)
    leader = quorum.elect()
    quorum.run_until(lambda: all(quorum.node(node).leader_id == leader for node in quorum.members))
    assert quorum.violations == []


def test_a_follower_cut_off_keeps_its_epoch_and_its_return_changes_nothing() -> None:
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


def test_without_pre_vote_a_follower_cut_off_burns_epochs_and_deposes_the_leader() -> None:
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


def full_omission(pre_vote: bool) -> tuple[int, int]:
    """PV-02 for a minute: epochs burned, and how often leadership changed."""
    quorum = Simulation(seed=7, size=5, start=[3, 1, 2], pre_vote=pre_vote)
    quorum.run_until(lambda: quorum.leader() is not None)
    for node in (4, 5):
        quorum.restart(node)
    while quorum.elect() != 3:
        leader = quorum.leader()
        assert leader is not None
        quorum.crash(leader)
        quorum.run_until(lambda gone=leader: quorum.leader() not in (None, gone))
        quorum.restart(leader)
    quorum.run(3_000)
    epoch, changes = quorum.epochs()[3], len(quorum.leaders)
    quorum.cut(*((a, b) for a in range(1, 6) for b in range(a + 1, 6) if (a, b) not in FULL_OMISSION))
    quorum.run(60_000)
    assert quorum.violations == []
    return max(quorum.epochs().values()) - epoch, len(quorum.leaders) - changes


def test_the_full_omission_topology_leaves_the_leader_alone() -> None:
    assert full_omission(pre_vote=True) == (0, 0)


def test_without_pre_vote_the_full_omission_topology_makes_leadership_flip() -> None:
    burned, changes = full_omission(pre_vote=False)
    assert burned >= 5
    assert changes >= 2


def test_leader_resigns_when_fetches_stop_and_raises_its_epoch_by_one() -> None:
    """LP-01 and PV-16: Resigned after 1.5 fetch timeouts, then Unattached in the next epoch, and no further."""
    quorum = Simulation(seed=3)
    leader = quorum.elect()
    epoch, cut_ms = quorum.epochs()[leader], quorum.now_ms
    quorum.isolate(leader)
    quorum.run_until(lambda: quorum.node(leader).state.kind is State.RESIGNED)
    assert 2_000 < quorum.now_ms - cut_ms <= 3_000
    quorum.run(20_000)
    assert quorum.epochs()[leader] == epoch + 1
    assert quorum.violations == []


def test_without_check_quorum_a_leader_cut_off_leads_for_ever() -> None:
    quorum = Simulation(seed=3, check_quorum=False)
    leader = quorum.elect()
    quorum.isolate(leader)
    quorum.run(30_000)
    assert quorum.node(leader).state.kind is State.LEADER


def test_a_follower_that_fetched_denies_pre_votes_and_one_told_not_to_grants_them() -> None:
    """PV-22 and the mutant of PV-29."""
    for denies in (True, False):
        quorum = Simulation(seed=5, follower_denies_pre_vote=denies)
        leader = quorum.elect()
        quorum.run(1_000)
        asked, asking = [node for node in quorum.members if node != leader]
        log = quorum.node(asked).log
        request = VoteRequest("test", asked, asking, quorum.epochs()[leader], log.last_epoch, log.end_offset, True)
        assert quorum.ask(asked, request).response.granted is not denies


def test_a_voter_of_an_older_release_makes_a_prospective_a_candidate_at_once() -> None:
    """PV-25: the pre-vote of node 1 fails with UNSUPPORTED_VERSION at its peers."""
    from nodes.reference.core import events
    from nodes.reference.core.node import Node

    settings = Simulation(size=3, start=[]).members[1].settings
    node = Node(settings, events.Stored(events.Election()), lambda low, _: low, 0)
    node.handle(events.Tick(), 0)
    sent = [effect for effect in node.handle(events.Tick(), 1_000) if isinstance(effect, events.Send)]
    assert [effect.request.pre_vote for effect in sent] == [True, True]
    answers = node.handle(events.Failed(2, sent[0].request_id, unsupported_version=True), 1_001)
    assert (node.state.kind, node.state.epoch) == (State.CANDIDATE, 1)
    votes = [effect.request for effect in answers if isinstance(effect, events.Send)]
    assert [(vote.replica_epoch, vote.pre_vote) for vote in votes] == [(1, False)] * 2


def test_a_vote_is_durable_before_its_answer_goes_out() -> None:
    quorum = Simulation(seed=2, start=[1])
    member = quorum.members[1]
    member.trace.clear()
    ticket = quorum.ask(1, VoteRequest("test", 1, 2, 5, 0, 0))
    assert ticket.response.granted
    assert (member.election.epoch, member.election.voted_id) == (5, 2)
    relevant = [name for name in member.trace if name in ("PersistElection", "Reply")]
    assert relevant == ["PersistElection", "PersistElection", "Reply"]  # the epoch, the vote, the answer


def test_a_second_candidate_of_the_epoch_is_refused_even_after_a_restart() -> None:
    """PV-15, the good side; the mutant of the same row forgets."""
    for mutant, granted in ((None, False), ("vote-forgotten-on-restart", True)):
        quorum = Simulation(seed=2, start=[1], mutant=mutant, read_mode="read-index")
        assert quorum.ask(1, VoteRequest("test", 1, 2, 5, 0, 0)).response.granted
        quorum.crash(1)
        quorum.restart(1)
        assert quorum.ask(1, VoteRequest("test", 1, 3, 5, 0, 0)).response.granted is granted


def test_a_leader_that_stops_hands_over_without_waiting_for_a_timeout() -> None:
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
def test_a_log_cannot_be_ahead_of_the_epoch_that_is_asked_for(pre_vote: bool, last_epoch: int, error: int) -> None:
    """PV-40."""
    quorum = Simulation(seed=2, start=[1])
    request = VoteRequest("test", 1, 2, 7, last_epoch, 100, pre_vote)
    assert quorum.ask(1, request).response.error == error


@pytest.mark.parametrize("old", [1, 2], ids=["one old voter", "two old voters"])
def test_a_quorum_of_old_and_new_voters_replaces_its_leader(old: int) -> None:
    """PV-25 and PV-27."""
    quorum = Simulation(seed=8, of_node={node: {"pre_vote": False} for node in range(1, old + 1)})
    leader = quorum.elect()
    quorum.run(1_000)
    quorum.crash(leader)
    quorum.run_until(lambda: quorum.leader() not in (None, leader))
    assert quorum.violations == []


def test_an_observer_follows_and_never_campaigns() -> None:
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
    assert {after for node, _, after, _, _ in quorum.steps if node == 4} == {State.UNATTACHED, State.FOLLOWER}
    assert quorum.violations == []
