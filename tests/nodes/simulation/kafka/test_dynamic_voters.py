"""KIP-853 on simulated nodes: voters that clients add and remove, and the defect EX-02, a stale voter set."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from harness.model import BadInput
from harness.model.quorum_states import State
from harness.model.systems import BOOTSTRAP_NODES
from nodes.wire import codec
from tests.support.nodes.simulated_kafka import in_between

pytestmark = pytest.mark.kafka

DYNAMIC = ("3.9.1", in_between("4.0.0"), "4.3.1")


def add_voter(run, node):
    listener = {"name": "CONTROLLER", "host": f"n{node}", "port": 9093}
    voter = {"voter_id": node, "voter_directory_id": run.cluster.directory_id(node), "listeners": [listener]}
    return codec.build(codec.ADD_RAFT_VOTER, 0, "request", {"cluster_id": None, "timeout": 5000, **voter})


def remove_voter(run, node):
    voter = {"voter_id": node, "voter_directory_id": run.cluster.directory_id(node)}
    return codec.build(codec.REMOVE_RAFT_VOTER, 0, "request", {"cluster_id": None, **voter})


def describe_quorum():
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    return codec.build(codec.DESCRIBE_QUORUM, 2, "request", {"topics": topics})


def voters(run, node):
    return sorted(run.cluster.status(node).voters)


def elected(run):
    """The leaders, of which none need have committed a record yet."""
    return [node for node in run.nodes if run.cluster.status(node).state is State.LEADER]


@pytest.mark.parametrize("version", DYNAMIC)
def test_an_observer_is_added_and_a_voter_removed(story, version):
    run = story(version, nodes=4, voters=3)
    run.start()
    leader = run.leader()
    run.until(lambda: run.cluster.status(4).leader == leader)
    assert voters(run, leader) == [1, 2, 3]
    run.pass_ms(2_000)
    assert run.ask(leader, add_voter(run, 4)).error_code is ErrorCode.none
    gone = next(node for node in (1, 2, 3) if node != leader)
    assert run.ask(leader, remove_voter(run, gone)).error_code is ErrorCode.none
    run.pass_ms(2_000)
    remaining = sorted({1, 2, 3, 4} - {gone})
    assert [voters(run, node) for node in remaining] == [remaining] * 3
    assert run.write(leader, "r1", 1)[0] == "none"
    assert run.cluster.violations == ()


def test_describe_quorum_and_voter_changes_are_answered_by_the_raft_client(story):
    run = story(nodes=4, voters=3)
    run.start()
    leader = run.leader()
    run.pass_ms(3_000)
    (topic,) = run.ask(leader, describe_quorum()).topics
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.leader_epoch) == (leader, 1)
    assert sorted(voter.replica_id for voter in partition.current_voters) == [1, 2, 3]
    assert [observer.replica_id for observer in partition.observers] == [4]
    follower = next(node for node in (1, 2, 3) if node != leader)
    assert run.ask(follower, remove_voter(run, 4)).error_code is ErrorCode.not_leader_or_follower
    assert run.ask(leader, remove_voter(run, 4)).error_code is ErrorCode.voter_not_found


def test_a_voter_with_a_new_disk_is_an_observer_with_another_directory_id(story):
    run = story(nodes=3, voters=3)
    run.start()
    leader = run.leader()
    node = next(each for each in (1, 2, 3) if each != leader)
    before = run.cluster.directory_id(node)
    run.cluster.kill(node)
    run.cluster.lose_disk(node)
    run.cluster.start(node)
    assert run.cluster.directory_id(node) != before
    run.until(lambda: run.cluster.status(node).state is State.FOLLOWER)
    run.pass_ms(3_000)
    (topic,) = run.ask(leader, describe_quorum()).topics
    assert [observer.replica_id for observer in topic.partitions[0].observers] == [node]
    assert run.cluster.violations == ()


def replace_a_voter_after_a_truncation(run):
    """EX-02's story: the old leader truncates a long tail, and the voters change at offsets that the tail had."""
    run.start()
    old = run.leader()
    run.pass_ms(2_000)
    run.isolate(old)
    run.send_writes(old, 60)
    leader = run.leader(other_than=old)
    run.cluster.restore()
    run.until(lambda: run.cluster.status(old) is not None and run.cluster.status(old).leader == leader)
    run.pass_ms(2_000)
    failed = next(node for node in (1, 2, 3) if node not in (old, leader))
    run.cluster.kill(failed)
    assert run.ask(leader, add_voter(run, 4)).error_code is ErrorCode.none
    assert run.ask(leader, remove_voter(run, failed)).error_code is ErrorCode.none
    run.pass_ms(2_000)
    return old, leader, failed


@pytest.mark.parametrize("version", DYNAMIC)
def test_an_observer_that_truncates_the_first_records_knows_no_voter_until_it_restarts(story, version):
    """EX-02's cause, at a cluster's first election: docs/findings/stale-voters.md."""
    run = story(version, nodes=4, voters=3)
    run.start()
    run.until(lambda: elected(run) != [])
    (first,) = elected(run)
    others = {1, 2, 3} - {first}
    run.cluster.cut([link for other in others for link in ((first, other), (other, first))])
    run.until(lambda: run.cluster.log(4) != b"")
    assert voters(run, 4) == [1, 2, 3]
    second = run.leader(other_than=first)
    run.until(lambda: run.cluster.status(4).leader == second)
    run.cluster.restore()
    run.pass_ms(3_000)
    assert run.cluster.log(4) == run.cluster.log(second)
    assert voters(run, 4) == []
    assert [each.node for each in run.cluster.violations if each.invariant == "voter-set-matches-log"] == [4]
    run.cluster.kill(4)
    run.cluster.start(4)
    run.pass_ms(1_000)
    assert voters(run, 4) == [1, 2, 3]


@pytest.mark.parametrize("version", DYNAMIC)
def test_a_voter_set_that_is_stale_after_a_truncation_is_reported(story, version):
    run = story(version, nodes=4, voters=3)
    old, leader, failed = replace_a_voter_after_a_truncation(run)
    assert voters(run, leader) == sorted({1, 2, 3, 4} - {failed})
    assert voters(run, old) == [1, 2, 3]
    stale = [each for each in run.cluster.violations if each.invariant == "voter-set-matches-log"]
    assert {each.node for each in stale} == {old}
    assert f"its voter set is [1, 2, 3], its log says {sorted({1, 2, 3, 4} - {failed})}" in {e.message for e in stale}


def test_a_stale_voter_set_lets_both_sides_of_a_split_commit(story):
    run = story(nodes=4, voters=3)
    old, leader, failed = replace_a_voter_after_a_truncation(run)
    run.cluster.start(failed)
    run.isolate(old, failed)
    run.until(lambda: {old, leader} == {*run.leaders()}, 60_000)
    assert [run.write(node, "r1", node)[0] for node in (old, leader)] == ["none", "none"]
    assert "state-machine-safety" in run.broken()


def test_releases_before_3_9_have_static_voters_only(story):
    with pytest.raises(BadInput, match="whose voters are static"):
        story("3.7.2", voters=3)
    with pytest.raises(BadInput, match="voters: expected 1 to 3"):
        story(voters=4)


@pytest.mark.parametrize("version", DYNAMIC)
def test_a_voter_that_restarts_while_a_removed_leader_still_leads_exits(story, version):
    """It knows the leader by its id and not by an address, and does not expect that one answers its first Fetch."""
    run = story(version, voters=3)
    run.start()
    leader = run.leader()
    run.pass_ms(2_000)
    restarted, silent = (node for node in run.nodes if node != leader)
    run.isolate(silent)
    run.cluster.call(leader, remove_voter(run, leader), lambda _response: None)
    run.until(lambda: voters(run, restarted) == sorted({restarted, silent}))
    for _ in range(8):  # its first Fetch goes to any of the bootstrap servers
        run.cluster.kill(restarted)
        run.start(restarted)
        run.pass_ms(2_000)
        if run.cluster.status(restarted) is None:
            break
    (detail,) = [seen.detail for seen in run.seen if seen.kind == "exited"]
    assert detail.startswith(
        "java.lang.IllegalStateException: Expected to be Follower, but the current state is Unattached"
    )
    assert [(each.invariant, each.node) for each in run.cluster.violations if each.invariant != "no-spin"] == [
        ("no-exception", restarted)
    ]


@pytest.mark.parametrize("version", DYNAMIC)
def test_a_voter_that_does_not_know_of_a_new_voter_exits_when_that_one_resigns(story, version):
    """A leader that restarts begins as Resigned; its EndQuorumEpoch has no endpoints, nor has the voter's log."""
    original = (1, 2, 3, 4)
    run = story(version, nodes=5, voters=4, switches={node: {BOOTSTRAP_NODES: "1,2,3,4"} for node in original})
    run.start()
    leader = run.leader()
    run.pass_ms(2_000)
    absent = next(node for node in original if node != leader)
    run.cluster.kill(absent)
    assert run.ask(leader, add_voter(run, 5)).error_code is ErrorCode.none
    while leader != 5:
        assert run.cluster.now_ms < 200_000
        run.cluster.kill(leader)
        failed, leader = leader, run.leader()
        run.start(failed)
        run.pass_ms(2_000)
    for node in {1, 2, 3, 4, 5} - {absent}:
        run.cluster.kill(node)
    run.start(absent)
    run.pass_ms(500)
    run.start(5)
    run.pass_ms(500)
    assert run.cluster.status(absent) is None
    detail = [seen.detail for seen in run.seen if (seen.kind, seen.node) == ("exited", absent)][-1]
    assert detail.startswith("java.lang.IllegalArgumentException: Unknown leader endpoints")


@pytest.mark.parametrize("removes_itself", [True, False])
@pytest.mark.parametrize("version", DYNAMIC)
def test_a_new_node_exits_when_a_voter_names_a_leader_without_endpoints(story, version, removes_itself):
    """The voter has the set without the leader, whom its quorum-state names; a new node has no voter set at all."""
    run = story(version, nodes=4, voters=3)
    run.start(1, 2, 3)
    leader = run.leader()
    run.pass_ms(2_000)
    returning, absent = (node for node in (1, 2, 3) if node != leader)
    run.cluster.kill(absent)
    if removes_itself:
        run.cluster.call(leader, remove_voter(run, leader), lambda _response: None)
        run.until(lambda: voters(run, returning) == sorted({returning, absent}))
    run.cluster.kill(leader)
    run.cluster.kill(returning)
    run.start(returning)
    run.start(4)
    run.pass_ms(900)  # less than the shortest election timeout
    assert (run.cluster.status(4) is None) is removes_itself
    exits = [seen.detail for seen in run.seen if (seen.kind, seen.node) == ("exited", 4)]
    assert all(each.startswith("java.lang.IllegalArgumentException: Unknown leader endpoints") for each in exits)
    assert all(each.endswith(f", after a Fetch response from node {returning}") for each in exits)


@pytest.mark.parametrize(
    ("voters", "nodes", "problem"),
    [(3, "1,4", "expected numbers of controllers, among 1,2,3"), (None, "1", "expected none in a static quorum")],
)
def test_bootstrap_nodes_are_nodes_of_a_dynamic_quorum(story, voters, nodes, problem):
    with pytest.raises(BadInput, match=f"{BOOTSTRAP_NODES}={nodes}: {problem}"):
        story(voters=voters, switches={1: {BOOTSTRAP_NODES: nodes}})
