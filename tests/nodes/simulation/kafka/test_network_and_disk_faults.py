"""What simulated nodes do when links, processes, disks and single messages fail."""

from __future__ import annotations

import pytest

from harness.model import BadInput
from harness.model.faults.rpc import (
    CLOSE,
    DROP,
    DUPLICATE,
    HOLD,
    HOLD_AND_LOSE,
    Api,
    RpcMatch,
    RpcRule,
    RuleCount,
    delay,
)
from harness.model.quorum_states import State

pytestmark = pytest.mark.kafka


def led(story, **fields):
    """A story whose leader is known and followed."""
    run = story(**fields)
    run.start()
    leader = run.leader()
    run.pass_ms(1_000)
    return run, leader


def fetches(leader, direction, action, **fields):
    ends = {"targets": (leader,)} if direction == "request" else {"sources": (leader,)}
    return RpcRule("fetches", RpcMatch((Api.FETCH,), direction, **ends, **fields), action)


def test_a_killed_node_keeps_what_it_wrote_and_catches_up(story):
    run, leader = led(story)
    follower = run.follower()
    assert run.write(leader, "r1", 1)[0] == "none"
    run.cluster.kill(follower)
    assert run.cluster.status(follower) is None
    assert run.write(leader, "r1", 2)[0] == "none"
    run.cluster.start(follower)
    run.pass_ms(3_000)
    assert run.read(follower, "r1") == "2"
    assert run.cluster.status(follower).epoch == 1
    assert run.cluster.violations == ()


def test_followers_elect_another_leader_when_the_leader_is_killed_and_its_clients_connections_break(story):
    run, leader = led(story)
    run.isolate(leader)
    answers = run.send_writes(leader, 2)
    run.pass_ms(100)
    assert answers == []
    run.cluster.kill(leader)
    run.pass_ms(100)
    assert answers == [None, None]
    assert run.leader(other_than=leader) != leader


def test_a_peer_s_death_is_noticed_at_once_and_a_cut_link_only_after_the_request_timeout(story):
    def ms_until_another_fetch(fault):
        run, leader = led(story, seed=3)
        fault(run, leader)
        run.until(lambda: run.cluster.status(run.follower()) is not None, 10)
        waiting = RpcRule("fetches", RpcMatch((Api.FETCH,), targets=(leader,)), delay(1))
        run.cluster.intercept([waiting])
        began_ms = run.cluster.now_ms
        run.until(lambda: run.cluster.rule_counts()["fetches"].matched > 0)
        return run.cluster.now_ms - began_ms

    assert ms_until_another_fetch(lambda run, leader: run.cluster.kill(leader)) < 200
    assert ms_until_another_fetch(lambda run, leader: run.isolate(leader)) > 900


def test_an_empty_disk_of_a_static_voter_can_lose_committed_records(story):
    run, leader = led(story)
    other = run.follower()
    (third,) = {*run.nodes} - {leader, other}
    run.isolate(third)
    assert run.write(leader, "r1", 1)[0] == "none"
    for node in (leader, other):
        run.cluster.kill(node)
    run.cluster.lose_disk(other)
    run.cluster.restore()
    run.cluster.start(other)
    run.leader(other_than=leader)
    assert run.read(run.leader(), "r1") is None
    assert "leader-completeness" in run.broken()


def test_a_power_failure_keeps_what_voters_synced_before_they_answered(story):
    run, leader = led(story)
    assert run.write(leader, "r1", 1)[0] == "none"
    for node in run.nodes:
        run.cluster.kill(node)
        run.cluster.lose_unsynced(node)
    run.start()
    assert run.read(run.leader(), "r1") == "1"
    assert run.cluster.violations == ()


def test_a_voter_without_its_quorum_state_keeps_its_log(story):
    run, leader = led(story)
    assert run.write(leader, "r1", 1)[0] == "none"
    follower = next(node for node in run.nodes if node != leader)
    run.cluster.kill(follower)
    log = run.cluster.log(follower)
    run.cluster.lose_quorum_state(follower)
    run.cluster.start(follower)
    run.leader()
    assert run.cluster.log(follower)[: len(log)] == log
    assert run.cluster.violations == ()


def test_a_paused_leader_is_replaced_and_follows_when_it_goes_on(story):
    run, leader = led(story)
    run.cluster.pause(leader)
    assert run.cluster.status(leader) is None
    successor = run.leader(other_than=leader)
    run.cluster.resume(leader)
    run.until(lambda: run.cluster.status(leader).state is State.FOLLOWER)
    assert run.cluster.status(leader).leader == successor
    assert run.cluster.violations == ()


@pytest.mark.parametrize(
    "action", [DROP, HOLD, HOLD_AND_LOSE, CLOSE], ids=lambda action: action.do + "-lose" * action.loses
)
def test_a_leader_whose_fetches_do_not_arrive_is_replaced(story, action):
    run, leader = led(story)
    run.cluster.intercept([fetches(leader, "request", action)])
    run.pass_ms(8_000)
    counts = run.cluster.intercept([])["fetches"]
    assert counts.acted == counts.matched >= 2
    run.until(lambda: run.cluster.status(run.leader()).epoch > 1)
    run.pass_ms(5_000)
    assert len(run.leaders()) == 1
    assert run.cluster.violations == ()


def test_a_held_message_is_delivered_when_its_rule_is_removed(story):
    run, leader = led(story)
    vote = RpcRule("votes", RpcMatch((Api.VOTE,), pre_vote=True), HOLD)
    run.cluster.intercept([vote])
    run.cluster.kill(leader)
    run.until(lambda: run.cluster.rule_counts()["votes"].holding > 0)
    assert run.leaders() == []
    run.cluster.intercept([])
    assert run.leader(other_than=leader) != leader


def test_a_delayed_message_delays_those_after_it_and_a_duplicate_changes_nothing(story):
    run, leader = led(story)
    run.cluster.intercept([fetches(leader, "response", delay(300))])
    began_ms = run.cluster.now_ms
    assert run.write(leader, "r1", 1)[0] == "none"
    assert run.cluster.now_ms - began_ms > 300
    run.cluster.intercept([fetches(leader, "request", DUPLICATE)])
    assert run.write(leader, "r1", 2)[0] == "none"
    run.pass_ms(1_000)
    assert run.cluster.rule_counts()["fetches"].acted > 0
    assert run.cluster.status(leader).epoch == 1
    assert run.cluster.violations == ()


def test_nth_probability_and_limit_choose_among_matches_and_an_unchanged_rule_keeps_its_counters(story):
    run, leader = led(story)
    third = RpcRule("third", RpcMatch((Api.FETCH,), targets=(leader,), nth=3), delay(1))
    twice = RpcRule("twice", RpcMatch((Api.FETCH,), targets=(leader,), limit=2), delay(1))
    half = RpcRule("half", RpcMatch((Api.FETCH,), targets=(leader,), probability=0.5), delay(1))
    run.cluster.intercept([third, twice, half])
    run.pass_ms(20_000)
    counts = run.cluster.intercept([third])
    assert (counts["third"].acted, counts["twice"].acted) == (1, 2)
    assert 0.2 < counts["half"].acted / counts["half"].matched < 0.8
    assert run.cluster.rule_counts() == {"third": counts["third"]}


@pytest.mark.parametrize("fields", [{"topic": "other"}, {"partition": 3}, {"pre_vote": True}])
def test_a_rule_for_another_partition_or_for_votes_matches_no_fetch(story, fields):
    run, leader = led(story)
    run.cluster.intercept([fetches(leader, "request", DROP, **fields)])
    run.pass_ms(2_000)
    assert run.cluster.rule_counts() == {"fetches": RuleCount()}


def test_rules_with_the_same_name_or_with_roles_are_bad_input(story):
    run = story()
    rule = RpcRule("votes", RpcMatch((Api.VOTE,)), DROP)
    with pytest.raises(BadInput, match="expected unique names"):
        run.cluster.intercept([rule, rule])
    with pytest.raises(BadInput, match="expected node numbers"):
        run.cluster.intercept([RpcRule("votes", RpcMatch(sources=("leader",)), DROP)])


def test_clients_are_node_0_of_links(story):
    run, leader = led(story)
    run.cluster.cut([(0, leader)])
    answers = run.send_writes(leader, 1)
    run.pass_ms(5_000)
    assert answers == []
    run.cluster.restore([(0, leader)])
    assert run.write(leader, "r1", 1)[0] == "none"
