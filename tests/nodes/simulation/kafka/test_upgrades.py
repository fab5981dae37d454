"""Nodes that get another release, or another configuration, while they are down, and go on with their disks."""

from __future__ import annotations

import itertools

import pytest

from harness.model import BadInput
from harness.model.systems import BOOTSTRAP_NODES
from nodes.kafka.configuration import SIMULATION_LOG
from nodes.simulation.kafka.cluster import IN_FILES
from nodes.simulation.schedule import voter_request
from nodes.wire.codec import ADD_RAFT_VOTER
from tests.support.nodes.simulated_kafka import Story, in_between

pytestmark = pytest.mark.kafka

PAIRS = [("3.9.1", "4.3.1"), ("3.7.2", "3.9.1"), in_between("4.3.1", "4.0.0")]
FETCH_TIMEOUT = "controller.quorum.fetch.timeout.ms"


def with_files(story, version: str, later: str, nodes: int = 3, **fields: object) -> Story:
    switches = dict.fromkeys(range(1, nodes + 1), IN_FILES)
    return story(version, nodes=nodes, switches=switches, later_versions=(later,), **fields)


def change(run: Story, node: int, version: str) -> None:
    """Kill a node and start it with another release."""
    run.cluster.kill(node)
    run.cluster.configure(node, {}, version)
    run.start(node)


def write(run: Story, value: int) -> None:
    """Write a value and wait until all nodes have applied it."""
    assert run.write(run.leader(), "r", value) == ("none", None)
    run.until(lambda: {run.read(node, "r") for node in run.nodes} == {str(value)})


@pytest.mark.parametrize(("version", "later"), PAIRS)
def test_each_node_changes_and_changes_back_under_writes(story, version, later):
    run = with_files(story, version, later)
    run.start()
    write(run, 0)
    logs = {node: run.cluster.log(node) for node in run.nodes}
    for value, (release, node) in enumerate(itertools.product((later, ""), run.nodes)):
        change(run, node, release)
        run.pass_ms(3_000)
        write(run, value + 1)
    assert all(run.cluster.log(node).startswith(log) for node, log in logs.items())
    assert run.broken() == set()


def test_upgraded_node_sends_requests_of_its_new_release(story):
    """3.9 has no Pre-Vote: it becomes a Candidate at once, and 4.3 a Prospective node first (KIP-996)."""
    run = with_files(story, "3.9.1", "4.3.1")
    run.start()
    run.leader()
    node = run.follower()
    for release, state in (("", "Candidate"), ("4.3.1", "Prospective")):
        change(run, node, release)
        run.pass_ms(2_000)
        run.seen.clear()
        run.isolate(node)
        run.until(lambda: len(run.transitions(node)) > 0)
        assert run.transitions(node)[0][0] == state
        run.cluster.restore()
        run.pass_ms(3_000)
    assert run.broken() == set()


def test_upgraded_voters_are_those_that_the_log_names(story):
    run = with_files(story, "3.9.1", "4.3.1", nodes=4, voters=3)
    run.start()
    leader = run.leader()
    run.pass_ms(3_000)
    change(run, 4, "4.3.1")
    run.pass_ms(1_000)
    response = run.ask(leader, voter_request(ADD_RAFT_VOTER, 4, run.cluster.directory_id(4)))
    assert response.error_code.name == "none"
    for node in run.nodes:
        change(run, node, "4.3.1")
        run.pass_ms(3_000)
    assert all(set(run.cluster.status(node).voters) == {1, 2, 3, 4} for node in run.nodes)
    write(run, 1)
    assert run.broken() == set()


def test_power_failure_of_an_upgraded_node_keeps_what_the_former_release_synced(story):
    run = with_files(story, "3.9.1", "4.3.1")
    run.start()
    write(run, 1)
    run.pass_ms(2_000)
    node = run.follower()
    before = run.cluster.log(node)
    run.cluster.kill(node)
    run.cluster.configure(node, {}, "4.3.1")
    run.cluster.lose_unsynced(node)
    assert run.cluster.log(node) == before
    run.start(node)
    write(run, 2)
    assert run.broken() == set()


@pytest.mark.parametrize("switches", [{}, IN_FILES], ids=["memory", "files"])
def test_node_is_configured_and_configured_back(story, switches):
    run = story("4.3.1", switches=dict.fromkeys((1, 2, 3), switches))
    run.start()
    write(run, 1)
    node = run.follower()
    took: list[int] = []
    for changed in ({FETCH_TIMEOUT: "600"}, {}):
        run.cluster.kill(node)
        run.cluster.configure(node, changed)
        run.start(node)
        run.until(lambda: run.read(node, "r") == "1")
        run.pass_ms(1_000)
        run.seen.clear()
        began = run.cluster.now_ms
        run.isolate(node)
        run.until(lambda: len(run.transitions(node)) > 0)
        took.append(run.cluster.now_ms - began)
        run.cluster.restore()
        run.pass_ms(3_000)
    assert took[0] < 700 < took[1]
    assert run.broken() == set()


@pytest.mark.parametrize(
    ("switches", "change", "expected"),
    [
        (IN_FILES, ({}, "4.1.0"), "change_version n1 kafka:4.1.0: expected a release that the run names: 4.3.1"),
        ({}, (IN_FILES, ""), f"configure n1 {SIMULATION_LOG}: expected a property that can change"),
        ({}, ({"no.such": "1"}, ""), "--switch no.such: a simulation of Kafka 4.3.1 has only controller."),
        ({}, ({BOOTSTRAP_NODES: "1"}, ""), f"{BOOTSTRAP_NODES}=1: expected none in a static quorum"),
    ],
    ids=["unnamed release", "kind of log", "unknown property", "bootstrap servers"],
)
def test_impossible_change_is_refused(story, switches, change, expected):
    run = story("4.3.1", switches=dict.fromkeys((1, 2, 3), switches))
    with pytest.raises(BadInput) as refused:
        run.cluster.configure(1, *change)
    assert str(refused.value).startswith(expected)


def test_log_in_memory_keeps_its_release(story):
    with pytest.raises(BadInput, match=f"^change_version 3.9.1: expected --switch {SIMULATION_LOG}=files: another"):
        story("4.3.1", later_versions=("3.9.1",))
