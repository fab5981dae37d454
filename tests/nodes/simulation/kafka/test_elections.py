"""Elections and writes of a simulated quorum, on each supported release."""

from __future__ import annotations

import pytest

from harness.model import BadInput
from harness.model.quorum_states import State
from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.kafka.cluster import KafkaCluster
from tests.support.nodes.simulated_kafka import VERSIONS, in_between

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_is_elected_and_a_write_commits_on_every_node(story, version):
    run = story(version)
    run.start()
    leader = run.leader()
    assert run.write(leader, "r1", 5) == ("none", None)
    run.pass_ms(1_000)
    assert [run.read(node, "r1") for node in run.nodes] == ["5", "5", "5"]
    ends = {run.cluster.status(node).log_end_offset for node in run.nodes}
    assert len(ends) == 1
    assert run.cluster.status(leader).voters == dict.fromkeys(run.nodes, ends.pop())
    assert run.cluster.violations == ()


def test_a_node_that_does_not_lead_names_the_active_controller(story):
    run = story()
    run.start()
    leader = run.leader()
    run.pass_ms(1_000)
    follower = run.follower()
    assert run.write(follower, "r1", 1) == ("not_controller", f"The active controller appears to be node {leader}.")
    assert run.read(leader, "r1") is None


@pytest.mark.parametrize(("version", "deposes"), [("3.9.1", True), in_between("4.0.0", False), ("4.3.1", False)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_follower_that_was_cut_off_deposes_the_leader_only_without_pre_vote(story, version, deposes, seed):
    run = story(version, seed)
    run.start()
    leader = run.leader()
    run.pass_ms(1_000)
    epoch = run.cluster.status(leader).epoch
    run.isolate(run.follower())
    run.pass_ms(12_000)
    assert run.cluster.status(leader).state is State.LEADER
    run.cluster.restore()
    run.pass_ms(5_000)
    later = run.cluster.status(run.leader()).epoch
    assert later > epoch + 1 if deposes else later == epoch
    assert run.cluster.violations == ()


def test_a_leader_that_stops_gracefully_hands_over_before_the_fetch_timeout(story):
    run = story()
    run.start()
    leader = run.leader()
    run.pass_ms(1_000)
    began_ms = run.cluster.now_ms
    run.cluster.stop(leader)
    run.until(lambda: run.cluster.status(leader) is None)
    assert run.leader(other_than=leader) != leader
    assert run.cluster.now_ms - began_ms < 2_000
    assert ("Resigned", 1) in run.transitions(leader)
    assert not run.cluster.call(leader, None, print)


def test_a_leader_that_loses_its_majority_answers_waiting_writes_without_naming_another(story):
    run = story()
    run.start()
    leader = run.leader()
    run.isolate(leader)
    error, message = run.write(leader, "r1", 1)
    assert (error, message) == ("not_controller", "No controller appears to be active.")
    assert run.leader(other_than=leader) != leader


def test_observations_are_those_of_the_log_in_the_order_in_which_they_happened(story):
    run = story()
    run.start()
    leader = run.leader()
    assert [seen.time_ns for seen in run.seen] == sorted(seen.time_ns for seen in run.seen)
    assert run.transitions(leader)[-3:] == [("Prospective", 0), ("Candidate", 1), ("Leader", 1)]
    last = next(seen for seen in reversed(run.seen) if seen.state == "Leader")
    assert (last.node, last.source, last.previous, last.leader) == (leader, "log", "Candidate", leader)


def test_settings_are_read_as_kafka_reads_them(story):
    fast = {"controller.quorum.election.timeout.ms": "100", "controller.quorum.fetch.timeout.ms": "300"}
    run = story(switches=dict.fromkeys((1, 2, 3), fast))
    run.start()
    run.leader()
    assert run.cluster.now_ms < 500


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("reference.pre_vote", "false", "--switch reference.pre_vote: a simulation of Kafka 4.3.1 has only"),
        ("controller.quorum.fetch.timeout.ms", "soon", "Not a number of type INT"),
    ],
)
def test_an_unknown_or_invalid_setting_is_bad_input(story, name, value, found):
    with pytest.raises(BadInput, match=found):
        story(switches={1: {name: value}})


def test_an_active_controller_writes_a_record_of_its_own_at_each_idle_interval(drivers):
    cluster = KafkaCluster(drivers("4.3.1"), SimulationSpec(3, 3), lambda _observation: None, idle_interval_ms=500)

    def end_at(time_ms):
        while cluster.now_ms < time_ms:
            cluster.advance(time_ms)
        return max(cluster.status(node).log_end_offset for node in (1, 2, 3))

    for node in (1, 2, 3):
        cluster.start(node)
    before = end_at(15_000)
    assert end_at(20_000) - before == 10
    cluster.close()


def test_a_node_that_was_paused_and_went_on_at_the_same_time_has_its_status(story):
    run = story()
    run.start()
    leader = run.leader()
    before = run.cluster.status(leader)
    run.cluster.pause(leader)
    assert run.cluster.status(leader) is None
    run.cluster.resume(leader)
    assert run.cluster.status(leader) == before


def test_a_cluster_is_closed_by_the_next_one_on_its_driver_and_keeps_its_digest(drivers):
    first = KafkaCluster(drivers("4.3.1"), SimulationSpec(3, 3), lambda _observation: None)
    first.start(1)
    expected = first.digest()
    second = KafkaCluster(drivers("4.3.1"), SimulationSpec(4, 3), lambda _observation: None)
    second.start(1)
    first.close()
    assert first.digest() == expected != second.digest()
    second.advance(1_000)
    assert second.status(1) is not None
    second.close()
