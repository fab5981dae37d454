"""The disruptions of KIP-996 on virtual time, with the fix and without: what whole reproductions show on processes."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.quorum_states import State
from nodes.reference.core.messages import FetchRequest, VoteRequest
from tests.support.nodes.quorum_simulation import Simulation, is_ok, value_of

SEEDS = range(5)


def first_leader(leader: int, size: int) -> dict[int, dict[str, Any]]:
    """Timeouts by which this node is the first to stand for election."""
    return {node: {"election_timeout_ms": 500 if node == leader else 2000} for node in range(1, size + 1)}


def burned(quorum: Simulation, since: int) -> int:
    """How far the epoch has grown."""
    return max(quorum.epochs().values()) - since


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pre_vote", [True, False], ids=["kip-996", "kip-595"])
def test_a_fetch_timeout_below_the_long_poll_burns_epochs_only_without_pre_vote(pre_vote: bool, seed: int) -> None:
    """PV-04."""
    quorum = Simulation(seed=seed, of_node={3: {"fetch_timeout_ms": 100}}, pre_vote=pre_vote)
    quorum.run_until(lambda: quorum.leader() in (1, 2))
    quorum.run(500)
    leader, epoch = quorum.leader(), max(quorum.epochs().values())
    quorum.run(15_000)
    if pre_vote:
        assert (quorum.leader(), burned(quorum, epoch)) == (leader, 0)
    else:
        assert burned(quorum, epoch) >= 20
    assert quorum.violations == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pre_vote", [True, False], ids=["kip-996", "kip-595"])
def test_a_candidate_that_is_cut_off_has_raised_its_epoch_once_or_goes_on(pre_vote: bool, seed: int) -> None:
    """PV-11."""
    quorum = Simulation(seed=seed, of_node=first_leader(2, 3), pre_vote=pre_vote)
    assert quorum.elect() == 2
    quorum.run(1_000)
    epoch = quorum.epochs()[1]

    def loses_votes(sender: int, receiver: int, request: Any, is_response: bool) -> int | None:
        is_vote = isinstance(request, VoteRequest) and not is_response
        return None if is_vote and ((sender, receiver) == (3, 1) or (sender == 1 and not request.pre_vote)) else 0

    quorum.treat = loses_votes
    quorum.crash(2)
    quorum.run_until(lambda: quorum.node(1).state.kind is State.CANDIDATE)
    quorum.isolate(1)
    quorum.restart(2)
    quorum.run(20_000)
    grown = quorum.epochs()[1] - epoch
    assert grown == 1 if pre_vote else grown >= 5
    assert quorum.violations == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mutant", [None, "pre-vote-without-fallback"])
def test_a_prospective_among_older_voters_falls_back_or_waits_for_ever(mutant: str | None, seed: int) -> None:
    """PV-25: n2 and n3 do not know Pre-Vote, and are in no hurry to replace their leader."""
    old = {"pre_vote": False, "fetch_timeout_ms": 60_000}
    of_node = {1: {"election_timeout_ms": 4000}, 2: old, 3: old}
    quorum = Simulation(seed=seed, of_node=of_node, mutant=mutant)
    leader = quorum.elect()
    assert leader != 1
    quorum.run(1_000)
    quorum.crash(leader)
    quorum.run(20_000)
    assert quorum.leader() == (None if mutant else 1)
    assert quorum.violations == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mutant", [None, "pre-vote-counted-as-vote"])
def test_a_pre_vote_that_comes_late_elects_nobody(mutant: str | None, seed: int) -> None:
    """PV-26: n1 has its own vote and that of n3; n4 and n5 never hear its call, but n5 granted a pre-vote."""
    of_node = first_leader(2, 5)
    of_node[1]["fetch_timeout_ms"] = 3500
    quorum = Simulation(seed=seed, size=5, of_node=of_node, mutant=mutant)
    assert quorum.elect() == 2
    quorum.run(1_000)

    def treat(sender: int, receiver: int, request: Any, is_response: bool) -> int | None:
        if not isinstance(request, VoteRequest):
            return 0
        if is_response:
            return 500 if request.pre_vote and sender == 5 else 0
        is_for_two = receiver in (4, 5) and not request.pre_vote
        return None if sender != 1 or is_for_two else 0

    quorum.treat = treat
    quorum.crash(2)
    quorum.run(12_000)
    assert quorum.leader() == (1 if mutant else None)
    assert State.CANDIDATE in {after for node, _, after, _, _ in quorum.steps if node == 1}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("check_quorum", [True, False])
def test_a_satisfied_follower_blocks_an_election_until_the_leader_steps_down(check_quorum: bool, seed: int) -> None:
    """PV-28: the leader serves one follower, whose vote the others need."""
    quorum = Simulation(seed=seed, size=5, check_quorum=check_quorum)
    leader = quorum.elect()
    quorum.run(1_000)
    served, *unserved, apart = [node for node in quorum.members if node != leader]
    quorum.cut(*((leader, node) for node in unserved))
    quorum.isolate(apart)
    quorum.run(15_000)
    assert (quorum.leader() in (served, *unserved)) is check_quorum
    assert quorum.violations == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("denies", [True, False])
def test_a_flaky_link_moves_leadership_only_where_satisfied_followers_grant_pre_votes(denies: bool, seed: int) -> None:
    """PV-29, with equal logs: nothing is appended while nothing happens."""
    quorum = Simulation(seed=seed, follower_denies_pre_vote=denies, max_idle_interval_ms=0)
    leader = quorum.elect()
    quorum.run(1_000)
    other = next(node for node in quorum.members if node != leader)
    led = len(quorum.leaders)
    for _ in range(3):
        quorum.cut((leader, other))
        quorum.run(5_000)
        quorum.heal()
        quorum.run(2_500)
    if denies:
        assert (quorum.leader(), len(quorum.leaders)) == (leader, led)
    else:
        assert len(quorum.leaders) >= led + 2
    assert quorum.violations == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("counts", ["requests", "responses"])
def test_a_leader_whose_answers_are_lost_stays_where_check_quorum_counts_requests(counts: str, seed: int) -> None:
    """PV-38: a fetch timeout above the request timeout, so that a follower that hears nothing fetches again."""
    quorum = Simulation(seed=seed, size=5, check_quorum_counts=counts, fetch_timeout_ms=4000)
    leader = quorum.elect()
    quorum.run(1_000)
    _, *unheard, apart = [node for node in quorum.members if node != leader]

    def loses_fetch_answers(sender: int, receiver: int, request: Any, is_response: bool) -> int | None:
        is_answer = isinstance(request, FetchRequest) and is_response
        return None if is_answer and sender == leader and receiver in unheard else 0

    quorum.treat = loses_fetch_answers
    quorum.isolate(apart)
    quorum.run(30_000)
    assert (quorum.leader() == leader) is (counts == "requests")
    assert quorum.violations == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("new_disk_votes", [True, False])
def test_a_voter_with_a_new_disk_elects_a_laggard_and_committed_writes_are_lost(
    new_disk_votes: bool, seed: int
) -> None:
    """PV-32, KIP-996's table T0 to T6: of the two that hold what is committed, the follower loses its disk."""
    quorum = Simulation(seed=seed, new_disk_votes=new_disk_votes)
    leader = quorum.elect()
    quorum.run(1_000)
    laggard, follower = [node for node in quorum.members if node != leader]
    quorum.isolate(laggard)
    quorum.run(500)
    acknowledged = quorum.write(leader, "k", "1")
    quorum.run_until(lambda: is_ok(acknowledged))
    quorum.crash(follower)
    quorum.lose_disk(follower)
    quorum.heal()
    quorum.isolate(leader)
    quorum.restart(follower)
    quorum.run(10_000)
    assert quorum.leader() == (laggard if new_disk_votes else None)
    quorum.heal()
    quorum.run(5_000)
    if new_disk_votes:
        assert "below the current high watermark" in (quorum.members[leader].halted or "")
        assert any("committed records differ" in violation for violation in quorum.violations)
    else:
        read = quorum.read(quorum.elect(), "k")
        quorum.run_until(lambda: is_ok(read))
        assert (value_of(read, "k"), quorum.violations) == ("1", [])


@pytest.mark.parametrize("new_disk_votes", [True, False])
def test_new_disks_all_around_elect_a_first_leader(new_disk_votes: bool) -> None:
    quorum = Simulation(seed=1, new_disk_votes=new_disk_votes)
    first = quorum.elect()
    quorum.run(1_000)
    quorum.crash(first)
    quorum.run_until(lambda: quorum.leader() not in (None, first))
    assert quorum.violations == []
