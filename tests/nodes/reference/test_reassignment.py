"""Quorum reassignment as KIP-642 describes it: the steps, who acts on them when, and what each mutant breaks."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.model.quorum_states import State
from nodes.reference.core.events import Assignment
from nodes.reference.core.messages import (
    NOT_FOLLOWER,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    FetchRequest,
    VoteRequest,
)
from nodes.reference.core.mutants import Mutant
from nodes.reference.core.reassignment import STEP_DOWN, next_step
from nodes.reference.core.records.log import Log
from nodes.wire import voter_assignment
from nodes.wire.batches import heads, records
from tests.support.nodes.mutant_cases import with_and_without
from tests.support.nodes.quorum_simulation import Simulation
from tests.support.nodes.reassignments import completed, crash_for_long, led, led_by_1, run_until_voters

EVERYONE = frozenset(range(10))


def steps(current: set[int], target: set[int], leader: int) -> list[Assignment]:
    """The assignments from the request to the end; the leader's successor is the voter with the lowest id."""
    assignment, seen = Assignment(tuple(sorted(current)), tuple(sorted(target))), []
    while (step := next_step(assignment, leader, EVERYONE)) is not None:
        if step is STEP_DOWN:
            leader = min(set(assignment.current) - {leader})
        else:
            assert isinstance(step, Assignment)
            assignment = step
            seen.append(step)
        assert len(seen) < 20
    return seen


@pytest.mark.parametrize("added", range(5))
@pytest.mark.parametrize("removed", range(5))
@pytest.mark.parametrize("is_leader_removed", [False, True])
def test_each_step_follows_the_rule_and_changes_one_voter(removed: int, added: int, is_leader_removed: bool) -> None:
    """Step 3 of the algorithm: add if as many are to be added as to be removed, or more; remove otherwise.

    Node 0 leads, and 9 stays a voter.
    """
    leader, removing, new = 0, set(range(1, removed + 1)), set(range(5, 5 + added))
    current = {leader, 9} | removing
    target = (current - removing | new) - ({leader} if is_leader_removed else set())
    seen = steps(current, target, leader)
    assert seen[-1] == Assignment(tuple(sorted(target)))
    before = current
    for step in seen[:-1]:
        after, to_add, to_remove = set(step.current), target - before, before - target
        assert len(after ^ before) == 1
        assert (after > before) is (len(to_add) >= len(to_remove))
        assert leader in after or to_remove == {leader}
        assert len(after & before) >= max(len(before), len(after)) // 2 + 1 or min(len(before), len(after)) == 1
        before = after


@pytest.mark.parametrize("promotion", ["caught-up-first", "in-order"])
def test_records_are_those_of_the_document(promotion: str) -> None:
    quorum = led_by_1(promotion=promotion)
    assert completed(quorum, quorum.reassign(1, 4, 5, 6)).error is ErrorCode.none
    run_until_voters(quorum, 4, 5, 6)
    target = (4, 5, 6)
    currents = [(1, 2, 3), (1, 2, 3, 4), (1, 2, 4), (1, 2, 4, 5), (1, 4, 5), (1, 4, 5, 6), (4, 5, 6)]
    expected = [Assignment((1, 2, 3)), *(Assignment(each, target) for each in currents), Assignment(target)]
    assert quorum.assignments(4) == expected
    assert quorum.leader() in target
    assert quorum.violations == []


def test_records_name_the_cluster() -> None:
    quorum = led_by_1()
    completed(quorum, quorum.reassign(1, 1, 2, 3, 4))
    data = quorum.node(1).log.read_from(0)
    control = [record for head in heads(data) if head.is_control for record in records(data, head)]
    assignments = [each for each in map(voter_assignment.decode, control) if each is not None]
    assert len(assignments) > 1
    assert {each.cluster_id for each in assignments} == {"test"}


def test_target_is_described_with_the_log_end_of_each_voter() -> None:
    quorum = led_by_1(max_idle_interval_ms=0)
    crash_for_long(quorum, 4)
    completed(quorum, quorum.reassign(1, 1, 2, 4))
    quorum.run(2_000)
    described = quorum.invoke(1, DescribeQuorumRequest()).response
    ends = {node: quorum.node(node).log.end_offset for node in (1, 2)} | {4: len_of_log(quorum, 4)}
    assert {each.replica_id: each.end_offset for each in described.target} == ends
    assert ends[4] < ends[1]


def len_of_log(quorum: Simulation, node: int) -> int:
    """The end of the log on a node's disk."""
    return Log(bytes(quorum.members[node].log)).end_offset


def test_replica_that_has_caught_up_is_added_before_a_slow_one() -> None:
    quorum = led_by_1()
    crash_for_long(quorum, 4)
    quorum.reassign(1, 4, 5, 6)
    quorum.run(5_000)
    assert quorum.assignments(1)[-1] == Assignment((1, 5, 6), (4, 5, 6))
    quorum.restart(4)
    run_until_voters(quorum, 4, 5, 6)


def test_in_order_the_slow_replica_is_waited_for() -> None:
    quorum = led_by_1(promotion="in-order")
    crash_for_long(quorum, 4)
    quorum.reassign(1, 4, 5, 6)
    quorum.run(5_000)
    assert quorum.assignments(1)[-1] == Assignment((1, 2, 3), (4, 5, 6))


def test_new_voter_that_does_not_fetch_is_told_of_the_leader() -> None:
    quorum, leader = led(observers=1)
    told: list[int] = []

    def without_fetches_of_4(sender: int, receiver: int, request: object, is_response: bool) -> int | None:
        if isinstance(request, BeginQuorumEpochRequest) and not is_response:
            told.append(receiver)
        return None if sender == 4 and isinstance(request, FetchRequest) and not is_response else 0

    quorum.message_rule = without_fetches_of_4
    quorum.run(5_000)
    assert 4 not in told, "an observer is not told"
    quorum.message_rule = lambda _sender, _receiver, _request, _is_response: 0
    completed(quorum, quorum.reassign(leader, 1, 2, 3, 4))
    run_until_voters(quorum, 1, 2, 3, 4)
    quorum.message_rule = without_fetches_of_4
    quorum.run_until(lambda: 4 in told)


def with_4_as_voter() -> Simulation:
    """In the middle of a reassignment to (4, 5, 6): 5 and 6 are down."""
    quorum = led_by_1()
    crash_for_long(quorum, 5, 6)
    completed(quorum, quorum.reassign(1, 4, 5, 6))
    quorum.run(3_000)
    assert quorum.assignments(1)[-1] == Assignment((1, 2, 4), (4, 5, 6))
    return quorum


def test_cancelled_reassignment_stays_at_the_current_voters() -> None:
    quorum = with_4_as_voter()
    assert completed(quorum, quorum.reassign(1)).error is ErrorCode.none
    run_until_voters(quorum, 1, 2, 4)


def test_reassignment_to_the_old_voters_returns_to_them_step_by_step() -> None:
    quorum = with_4_as_voter()
    completed(quorum, quorum.reassign(1, 1, 2, 3))
    run_until_voters(quorum, 1, 2, 3)
    old = (1, 2, 3)
    returned = [Assignment((1, 2, 4), old), Assignment((1, 2, 3, 4), old), Assignment(old, old), Assignment(old)]
    assert quorum.assignments(1)[-4:] == returned


def test_new_target_replaces_the_pending_one() -> None:
    quorum = with_4_as_voter()
    quorum.restart(5)
    completed(quorum, quorum.reassign(1, 2, 4, 5))
    run_until_voters(quorum, 2, 4, 5)


def test_only_the_leader_accepts_a_reassignment() -> None:
    quorum = led_by_1()
    response = completed(quorum, quorum.reassign(2, 4, 5, 6))
    assert response.error is ErrorCode.not_leader_or_follower
    quorum.run(2_000)
    assert quorum.assignments(1) == [Assignment((1, 2, 3))]


def test_repeated_request_appends_nothing() -> None:
    quorum = led_by_1()
    for node in (2, 3):
        quorum.cut((1, node))
    first, second = quorum.reassign(1, 1, 2, 3, 4), quorum.reassign(1, 1, 2, 3, 4)
    assert first.response is second.response is None
    quorum.heal()
    assert completed(quorum, first).error is completed(quorum, second).error is ErrorCode.none
    run_until_voters(quorum, 1, 2, 3, 4)
    assert completed(quorum, quorum.reassign(1, 1, 2, 3, 4)).error is ErrorCode.none
    assert len(quorum.assignments(1)) == 4


def test_static_quorum_refuses_a_reassignment() -> None:
    quorum = Simulation(seed=1)
    leader = quorum.elect()
    assert completed(quorum, quorum.reassign(leader, 1, 2)).error is ErrorCode.invalid_request


@pytest.mark.parametrize("voters", [(1, 1), (-1, 2)])
def test_impossible_voters_are_refused(voters: tuple[int, ...]) -> None:
    quorum = led_by_1()
    assert completed(quorum, quorum.reassign(1, *voters)).error is ErrorCode.invalid_replica_assignment


@with_and_without("reassignment-acknowledged-early")
def test_reassignment_is_acknowledged_once_it_is_committed(mutant: Mutant | None) -> None:
    quorum = led_by_1(mutant=mutant)
    quorum.isolate(1)
    operation = quorum.reassign(1, 4, 5, 6)
    quorum.run(500)
    assert (operation.response is not None) is (mutant is not None)
    quorum.run_until(lambda: quorum.leader() in (2, 3))
    quorum.heal()
    quorum.run(5_000)
    assert (operation.response.error is ErrorCode.none) is (mutant is not None)
    assert quorum.assignments(1) == quorum.assignments(2) == [Assignment((1, 2, 3))]


def test_request_without_commit_times_out() -> None:
    quorum = led_by_1(check_quorum=False)
    quorum.isolate(1)
    assert completed(quorum, quorum.reassign(1, 4, 5, 6)).error is ErrorCode.request_timed_out


def test_leader_that_is_removed_steps_down_and_votes_until_then() -> None:
    quorum = led_by_1(observers=0)
    quorum.members[1].effects.clear()
    quorum.reassign(1, 2, 3)
    run_until_voters(quorum, 2, 3)
    assert "EndQuorumEpochRequest" in quorum.members[1].effects
    last_with_1 = quorum.assignments(2)[-3]
    assert last_with_1 == Assignment((1, 2, 3), (2, 3))
    assert [node for epoch in sorted(quorum.leaders) for node in quorum.leaders[epoch]][-1] in (2, 3)
    assert not quorum.node(1).voters.is_voter


def appended_by_1_alone(**switches: Any) -> Simulation:
    """Node 1 has appended that 4 votes, and was cut off before any other node had the record."""
    quorum = led_by_1(observers=1, **switches)
    quorum.reassign(1, 1, 2, 3, 4)
    quorum.run_until(lambda: quorum.assignments(1)[-1].current == (1, 2, 3, 4))
    quorum.isolate(1)
    return quorum


@with_and_without("voters-kept-after-truncation")
def test_truncated_assignment_is_reverted(mutant: Mutant | None) -> None:
    quorum = appended_by_1_alone(mutant=mutant)
    quorum.crash(4)
    quorum.run_until(lambda: quorum.leader() in (2, 3))
    quorum.heal()
    quorum.run(5_000)
    assert quorum.assignments(1)[-1] == Assignment((1, 2, 3), (1, 2, 3, 4))
    assert quorum.node(1).voters.ids == ((1, 2, 3, 4) if mutant else (1, 2, 3))


@with_and_without("voters-change-when-committed")
def test_assignment_counts_once_it_is_appended(mutant: Mutant | None) -> None:
    """The leader cannot commit that 4 votes: two of three had to be enough for it before, three of four now."""
    quorum = appended_by_1_alone(mutant=mutant)
    assert quorum.node(1).voters.ids == ((1, 2, 3) if mutant else (1, 2, 3, 4))
    assert quorum.node(1).voters.majority == (2 if mutant else 3)


def test_restarted_node_finds_assignments_that_are_not_committed() -> None:
    quorum = appended_by_1_alone()
    assert quorum.members[1].election.assignment == Assignment((1, 2, 3), (1, 2, 3, 4))
    quorum.crash(1)
    quorum.restart(1)
    assert quorum.node(1).voters.ids == (1, 2, 3, 4)


@with_and_without("voters-changed-before-own-record")
def test_two_leaders_do_not_commit_with_disjoint_majorities(mutant: Mutant | None) -> None:
    """Leader 1 adds 5, which only 5 learns; leader 2 would add 6. {1, 4, 5} and {2, 3, 6} are majorities then."""
    slow = {node: {"election_timeout_ms": 6_000, "fetch_timeout_ms": 20_000} for node in (3, 4, 5)}
    slow[2] = {"election_timeout_ms": 3_000, "check_quorum": False}
    quorum, leader = led(size=4, observers=2, per_node=slow, mutant=mutant, pre_vote=False)
    assert leader == 1
    crash_for_long(quorum, 5, 6)
    completed(quorum, quorum.reassign(1, 1, 2, 3, 4, 5, 6))
    quorum.run(1_000)
    quorum.cut(*((1, node) for node in (2, 3, 4, 6)))
    quorum.restart(5)
    quorum.run_until(lambda: quorum.assignments(1)[-1].current == (1, 2, 3, 4, 5))
    quorum.run_until(lambda: quorum.assignments(5)[-1:] == quorum.assignments(1)[-1:])
    quorum.cut(*((5, node) for node in (2, 3, 4, 6)))
    quorum.message_rule = lambda _sender, receiver, request, is_response: (
        None if receiver == 4 and is_response and isinstance(request, FetchRequest) else 0
    )
    quorum.restart(6)
    quorum.run_until(lambda: quorum.leader() == 2)
    quorum.cut((2, 4), (3, 4), (6, 4))
    quorum.run(6_000)
    quorum.message_rule = lambda _sender, _receiver, _request, _is_response: 0
    quorum.reconnect((1, 4), (4, 5))
    quorum.crash(1)
    quorum.restart(1)
    quorum.run(20_000)
    assert any("committed records differ" in each for each in quorum.violations) is (mutant is not None)


def lose_fetched(quorum: Simulation, nodes: tuple[int, ...], voters: tuple[int, ...]) -> None:
    """Once node 1 has appended that these are the voters, these nodes get no responses to fetches."""

    def rule(_sender: int, receiver: int, request: Any, is_response: bool) -> int | None:
        is_fetched = receiver in nodes and is_response and isinstance(request, FetchRequest)
        return None if is_fetched and quorum.node(1).voters.ids == voters else 0

    quorum.message_rule = rule


@pytest.mark.parametrize(("policy", "is_elected"), [("grant", True), ("campaign", False), ("reject", False)])
def test_node_that_votes_by_its_own_log_alone_is_elected_only_if_membership_is_ignored(
    policy: str, is_elected: bool
) -> None:
    """The leader has committed with 3 that 3 votes, and fails. 3 needs the vote of 2, which has not learned it.

    KIP-642's rule, to reject and become a candidate, does not help: the log of 2 is behind that of 3.
    """
    quorum = led_by_1(size=2, observers=1, non_voter_votes=policy)
    lose_fetched(quorum, (2,), (1, 2, 3))
    quorum.reassign(1, 1, 2, 3)
    quorum.run_until(lambda: quorum.assignments(1)[-1] == Assignment((1, 2, 3)))
    assert quorum.node(2).voters.ids == (1, 2)
    quorum.crash(1)
    quorum.message_rule = lambda _sender, _receiver, _request, _is_response: 0
    quorum.run(30_000)
    assert (quorum.leader() is not None) is is_elected


@pytest.mark.parametrize("policy", ["grant", "campaign", "reject"])
def test_voter_that_gets_the_request_of_a_non_voter_begins_an_election_at_once_if_it_campaigns(policy: str) -> None:
    quorum = led_by_1(observers=1, non_voter_votes=policy)
    follower = quorum.node(2)
    assert follower.state.kind is State.FOLLOWER
    vote = VoteRequest("test", 2, 4, quorum.epochs()[1] + 1, follower.log.last_epoch, follower.log.end_offset)
    assert quorum.invoke(2, vote).response.granted is (policy == "grant")
    assert follower.state.kind is (State.PROSPECTIVE if policy == "campaign" else State.UNATTACHED)


@pytest.mark.parametrize("campaigns", [True, False])
def test_removed_voter_that_alone_has_the_record_keeps_the_quorum_electable(campaigns: bool) -> None:
    """Four voters; the leader fails when only 4 has the record that removes 4. Then 4 grants no vote to 2 and 3."""
    quorum = led_by_1(size=4, observers=0, removed_voters_campaign=campaigns)
    lose_fetched(quorum, (2, 3), (1, 2, 3))
    quorum.reassign(1, 1, 2, 3)
    quorum.run_until(lambda: quorum.node(4).voters.ids == (1, 2, 3))
    quorum.crash(1)
    quorum.message_rule = lambda _sender, _receiver, _request, _is_response: 0
    quorum.run(30_000)
    assert (quorum.leader() is not None) is campaigns


def test_removed_voter_is_told_so_once() -> None:
    quorum = led_by_1(observers=0)
    offset = quorum.node(3).log.end_offset
    quorum.crash(3)
    quorum.reassign(1, 1, 2)
    run_until_voters(quorum, 1, 2)
    epoch, last_epoch = quorum.epochs()[1], quorum.node(1).log.last_epoch
    fetch = FetchRequest("test", 3, epoch, offset, last_epoch, 0, 1_000_000)
    assert quorum.invoke(1, fetch).response.error is NOT_FOLLOWER
    assert quorum.invoke(1, fetch).response.error is ErrorCode.none


def test_voter_that_is_told_of_its_removal_is_an_observer_before_it_has_the_record() -> None:
    quorum = led_by_1(observers=0)
    quorum.isolate(3)
    quorum.reassign(1, 1, 2)
    quorum.run_until(lambda: quorum.assignments(1)[-1] == Assignment((1, 2)))
    quorum.heal()
    quorum.run_until(lambda: not quorum.node(3).voters.is_voter)
    quorum.run_until(lambda: quorum.node(3).voters.ids == (1, 2))
    assert quorum.leaders == {quorum.epochs()[1]: {1}}


@pytest.mark.parametrize("pre_vote", [True, False])
def test_voter_that_missed_the_removal_of_all_voters_it_knows_finds_out_with_pre_vote(pre_vote: bool) -> None:
    """Without Pre-Vote it campaigns forever: a Candidate does not fetch, and only a fetch would tell it.

    It raises the epoch of 1 and 2, which vote for it without being voters, and which the leader cannot serve then.
    """
    quorum = led_by_1(pre_vote=pre_vote)
    quorum.isolate(3)
    quorum.reassign(1, 4, 5, 6)
    quorum.run_until(lambda: quorum.leader() in (4, 5, 6) and quorum.assignments(4)[-1] == Assignment((4, 5, 6)))
    quorum.run(10_000)  # without Pre-Vote, the epoch of 3 is above the leader's now
    quorum.heal()
    quorum.run(60_000)
    is_informed = {node: quorum.node(node).voters.ids == (4, 5, 6) for node in quorum.members}
    assert is_informed == {node: node != 3 or pre_vote for node in quorum.members}
    epoch = quorum.epochs()[quorum.elect()]
    assert {node for node, each in quorum.epochs().items() if each > epoch + 5} == (set() if pre_vote else {1, 2, 3})


def test_quorum_of_one_grows_and_shrinks() -> None:
    quorum = led_by_1(size=1, observers=2)
    quorum.reassign(1, 1, 2, 3)
    run_until_voters(quorum, 1, 2, 3)
    quorum.reassign(1, 2)
    run_until_voters(quorum, 2)
    assert quorum.elect() == 2
    assert quorum.violations == []


def test_leader_without_majority_that_asks_leads_until_it_learns_of_another() -> None:
    quorum = led_by_1(observers=0, leader_without_majority="asks", bootstrap_servers=(("host", 1),))
    quorum.isolate(1)
    quorum.run(10_000)
    assert quorum.node(1).state.kind is State.LEADER
    quorum.heal()
    quorum.run_until(lambda: quorum.node(1).state.kind is State.FOLLOWER)
