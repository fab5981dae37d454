"""The disruptions that KIP-996 describes, in virtual time, each with and without the fix.

The catalogue's scenarios reproduce the same on processes.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.quorum_states import State
from nodes.reference.core.messages import FetchRequest, VoteRequest
from tests.support.nodes.quorum_simulation import Simulation, is_ok, value_of

SEEDS = range(5)


def elected_first(leader: int, size: int) -> dict[int, dict[str, Any]]:
    """Election timeouts with which this node wins the first election."""
    return {node: {"election_timeout_ms": 500 if node == leader else 2000} for node in range(1, size + 1)}


def epochs_since(quorum: Simulation, epoch: int) -> int:
    """How far the highest epoch has risen."""
    return max(quorum.epochs().values()) - epoch


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pre_vote", [True, False], ids=["kip-996", "kip-595"])
def test_fetch_timeout_below_the_long_poll_raises_epochs_only_without_pre_vote(pre_vote: bool, seed: int) -> None:
    """PV-04."""
    quorum = Simulation(seed=seed, per_node={3: {"fetch_timeout_ms": 100}}, pre_vote=pre_vote)
    quorum.run_until(lambda: quorum.leader() in (1, 2))
    quorum.run(500)
    leader, epoch = quorum.leader(), max(quorum.epochs().values())
    quorum.run(15_000)
    if pre_vote:
        assert (quorum.leader(), epochs_since(quorum, epoch)) == (leader, 0)
    else:
        assert epochs_since(quorum, epoch) >= 20
    assert quorum.violations == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pre_vote", [True, False], ids=["kip-996", "kip-595"])
def test_isolated_candidate_keeps_raising_its_epoch_only_without_pre_vote(pre_vote: bool, seed: int) -> None:
    """PV-11."""
    quorum = Simulation(seed=seed, per_node=elected_first(2, 3), pre_vote=pre_vote)
    assert quorum.elect() == 2
    quorum.run(1_000)
    epoch = quorum.epochs()[1]

    def drop_votes(sender: int, receiver: int, request: Any, is_response: bool) -> int | None:
        is_vote = isinstance(request, VoteRequest) and not is_response
        return None if is_vote and ((sender, receiver) == (3, 1) or (sender == 1 and not request.pre_vote)) else 0

    quorum.message_rule = drop_votes
    quorum.crash(2)
    quorum.run_until(lambda: quorum.node(1).state.kind is State.CANDIDATE)
    quorum.isolate(1)
    quorum.restart(2)
    quorum.run(20_000)
    epochs = quorum.epochs()[1] - epoch
    assert epochs == 1 if pre_vote else epochs >= 5
    assert quorum.violations == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mutant", [None, "pre-vote-without-fallback"])
def test_prospective_among_older_voters_is_elected_unless_it_lacks_the_fallback(mutant: str | None, seed: int) -> None:
    """PV-25: n2 and n3 do not support Pre-Vote, and their fetch timeout is long."""
    old = {"pre_vote": False, "fetch_timeout_ms": 60_000}
    per_node = {1: {"election_timeout_ms": 4000}, 2: old, 3: old}
    quorum = Simulation(seed=seed, per_node=per_node, mutant=mutant)
    leader = quorum.elect()
    assert leader != 1
    quorum.run(1_000)
    quorum.crash(leader)
    quorum.run(20_000)
    assert quorum.leader() == (None if mutant else 1)
    assert quorum.violations == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mutant", [None, "pre-vote-counted-as-vote"])
def test_late_pre_vote_is_not_counted_as_a_vote(mutant: str | None, seed: int) -> None:
    """PV-26: n1 has its own vote and that of n3. Its vote requests to n4 and n5 are lost; n5 granted a pre-vote."""
    per_node = elected_first(2, 5)
    per_node[1]["fetch_timeout_ms"] = 3500
    quorum = Simulation(seed=seed, size=5, per_node=per_node, mutant=mutant)
    assert quorum.elect() == 2
    quorum.run(1_000)

    def delay_pre_vote_and_drop_votes(sender: int, receiver: int, request: Any, is_response: bool) -> int | None:
        if not isinstance(request, VoteRequest):
            return 0
        if is_response:
            return 500 if request.pre_vote and sender == 5 else 0
        is_lost_vote = receiver in (4, 5) and not request.pre_vote
        return None if sender != 1 or is_lost_vote else 0

    quorum.message_rule = delay_pre_vote_and_drop_votes
    quorum.crash(2)
    quorum.run(12_000)
    assert quorum.leader() == (1 if mutant else None)
    assert State.CANDIDATE in {after for node, _, after, _, _ in quorum.transitions if node == 1}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("check_quorum", [True, False])
def test_follower_of_a_minority_leader_blocks_elections_until_the_leader_resigns(check_quorum: bool, seed: int) -> None:
    """PV-28: the leader serves one follower, and the others need its vote."""
    quorum = Simulation(seed=seed, size=5, check_quorum=check_quorum)
    leader = quorum.elect()
    quorum.run(1_000)
    served, *unserved, isolated = [node for node in quorum.members if node != leader]
    quorum.cut(*((leader, node) for node in unserved))
    quorum.isolate(isolated)
    quorum.run(15_000)
    assert (quorum.leader() in (served, *unserved)) is check_quorum
    assert quorum.violations == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("denies", [True, False])
def test_flaky_link_moves_leadership_only_if_followers_that_fetched_grant_pre_votes(denies: bool, seed: int) -> None:
    """PV-29, with equal logs: an idle leader appends nothing."""
    quorum = Simulation(seed=seed, follower_denies_pre_vote=denies, max_idle_interval_ms=0)
    leader = quorum.elect()
    quorum.run(1_000)
    other = next(node for node in quorum.members if node != leader)
    elections = len(quorum.leaders)
    for _ in range(3):
        quorum.cut((leader, other))
        quorum.run(5_000)
        quorum.heal()
        quorum.run(2_500)
    if denies:
        assert (quorum.leader(), len(quorum.leaders)) == (leader, elections)
    else:
        assert len(quorum.leaders) >= elections + 2
    assert quorum.violations == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("counts", ["requests", "responses"])
def test_leader_whose_fetch_responses_are_lost_stays_if_check_quorum_counts_requests(counts: str, seed: int) -> None:
    """PV-38: the fetch timeout is above the request timeout, so a follower without a response fetches again."""
    quorum = Simulation(seed=seed, size=5, check_quorum_counts=counts, fetch_timeout_ms=4000)
    leader = quorum.elect()
    quorum.run(1_000)
    _, *affected, isolated = [node for node in quorum.members if node != leader]

    def drop_fetch_responses(sender: int, receiver: int, request: Any, is_response: bool) -> int | None:
        is_fetch_response = isinstance(request, FetchRequest) and is_response
        return None if is_fetch_response and sender == leader and receiver in affected else 0

    quorum.message_rule = drop_fetch_responses
    quorum.isolate(isolated)
    quorum.run(30_000)
    assert (quorum.leader() == leader) is (counts == "requests")
    assert quorum.violations == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("new_disk_votes", [True, False])
def test_voter_with_a_new_disk_elects_a_lagging_voter_and_a_committed_write_is_lost(
    new_disk_votes: bool, seed: int
) -> None:
    """PV-32, KIP-996's table T0 to T6: one of the two voters with the committed write loses its disk."""
    quorum = Simulation(seed=seed, new_disk_votes=new_disk_votes)
    leader = quorum.elect()
    quorum.run(1_000)
    lagging, follower = [node for node in quorum.members if node != leader]
    quorum.isolate(lagging)
    quorum.run(500)
    acknowledged = quorum.write(leader, "k", "1")
    quorum.run_until(lambda: is_ok(acknowledged))
    quorum.crash(follower)
    quorum.lose_disk(follower)
    quorum.heal()
    quorum.isolate(leader)
    quorum.restart(follower)
    quorum.run(10_000)
    assert quorum.leader() == (lagging if new_disk_votes else None)
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
def test_quorum_of_new_disks_elects_a_first_leader(new_disk_votes: bool) -> None:
    quorum = Simulation(seed=1, new_disk_votes=new_disk_votes)
    first = quorum.elect()
    quorum.run(1_000)
    quorum.crash(first)
    quorum.run_until(lambda: quorum.leader() not in (None, first))
    assert quorum.violations == []
