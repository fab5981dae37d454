"""Quorums of nodes of two releases: elections, replication, and what the older release cannot read."""

from __future__ import annotations

import random

import pytest

from harness.model import BadInput
from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.schedule import voter_request
from nodes.wire.codec import ADD_RAFT_VOTER
from tests.support.nodes.simulated_kafka import Story, in_between

pytestmark = pytest.mark.kafka

PAIRS = [("4.3.1", "3.9.1"), ("4.3.1", "3.7.2"), in_between("4.0.0", "3.8.1"), ("3.9.1", "4.3.1")]


@pytest.mark.parametrize(("version", "other"), PAIRS)
def test_nodes_of_both_releases_lead_and_have_the_same_records(story, version, other):
    run = story(version, versions={1: other, 3: other})
    run.start()
    led, down = set(), 0
    for value in range(40):
        leader = run.leader(other_than=down)
        assert run.write(leader, "r1", value) == ("none", None)
        run.pass_ms(1_000)
        assert {run.read(node, "r1") for node in run.nodes if node != down} == {str(value)}
        led.add(leader == 2)
        if down:
            run.start(down)
            run.pass_ms(3_000)
        if led == {True, False}:
            break
        down = leader
        run.cluster.kill(down)
    assert led == {True, False}
    assert run.broken() == set()


def test_a_candidate_skips_pre_vote_where_a_voter_cannot_read_its_request(story):
    """KIP-996: a voter without Pre-Vote has Vote version 1, and the request fails with UNSUPPORTED_VERSION."""
    run = story("4.3.1", versions={2: "3.9.1", 3: "3.9.1"})
    run.isolate(1)
    run.start()
    run.until(lambda: len([state for state, _ in run.transitions(1) if state == "Prospective"]) > 2)
    assert "Candidate" not in {state for state, _ in run.transitions(1)}  # it knows no version yet
    run.cluster.restore()
    run.until(lambda: "Candidate" in {state for state, _ in run.transitions(1)})
    run.pass_ms(5_000)
    assert run.leader()
    assert run.broken() == set()


def test_a_voter_that_one_release_adds_votes_on_the_other(story):
    run = story("4.3.1", nodes=4, voters=3, versions={1: "3.9.1", 4: "3.9.1"})
    run.start()
    leader = run.leader()
    run.pass_ms(3_000)
    response = run.ask(leader, voter_request(ADD_RAFT_VOTER, 4, run.cluster.directory_id(4)))
    assert response.error_code.name == "none"
    run.pass_ms(2_000)
    assert all(set(run.cluster.status(node).voters) == {1, 2, 3, 4} for node in run.nodes)
    assert run.broken() == set()


def test_the_same_seed_gives_the_same_run(drivers):
    def digest() -> str:
        run = Story(drivers("4.3.1", "3.9.1"), SimulationSpec(5, 3, versions={2: "3.9.1"}))
        choices = random.Random(5)
        run.start()
        for _ in range(10):
            node = choices.choice(run.nodes)
            run.isolate(node)
            run.pass_ms(choices.choice((300, 1500, 4000)))
            run.cluster.restore()
            run.pass_ms(500)
        run.cluster.close()
        return run.cluster.digest()

    assert digest() == digest()


def test_voters_do_not_change_where_one_release_cannot(story):
    with pytest.raises(BadInput, match=r"^voters: expected none with Kafka 4.3.1 and 3.7.2, whose voters are static"):
        story("4.3.1", nodes=4, voters=3, versions={1: "3.7.2"})


def test_a_setting_is_refused_by_the_release_that_lacks_it(story):
    unknown = {1: {"controller.quorum.auto.join.enable": "true"}}
    with pytest.raises(
        BadInput, match=r"^--switch controller.quorum.auto.join.enable: a simulation of Kafka 3.9.1 has"
    ):
        story("4.3.1", versions={1: "3.9.1"}, switches=unknown)
