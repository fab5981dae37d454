"""Observers that reach no leader: on which releases the Raft client polls without a wait (docs/findings/README.md)."""

from __future__ import annotations

import pytest

from tests.support.nodes.simulated_kafka import in_between

pytestmark = pytest.mark.kafka


def spinning(run) -> set[tuple[int, str]]:
    """The nodes that poll without a wait, with the message of the invariant no-spin."""
    return {(each.node, each.message) for each in run.cluster.violations if each.invariant == "no-spin"}


@pytest.mark.parametrize(("version", "spins"), [("3.9.1", False), in_between("4.0.0", False), ("4.3.1", True)])
@pytest.mark.parametrize("lost", ["the links to all", "the leader"])
def test_a_follower_that_does_not_vote_polls_without_a_wait_after_its_fetch_timeout(story, version, spins, lost):
    run = story(version, nodes=4, voters=3)
    run.start()
    leader = run.leader()
    run.pass_ms(3_000)
    assert spinning(run) == set()
    if lost == "the leader":
        run.cluster.kill(leader)
    else:
        run.isolate(4)
    run.pass_ms(6_000)
    message = "as Follower that does not vote, it polls again and again without a wait"
    assert spinning(run) == ({(4, message)} if spins else set())


@pytest.mark.parametrize("version", ["3.9.1", in_between("4.0.0"), "4.3.1"])
def test_an_observer_that_starts_without_a_leader_polls_without_a_wait(story, version):
    run = story(version, nodes=4, voters=3)
    run.start(4)
    run.pass_ms(6_000)
    assert spinning(run) == {(4, "as Unattached that does not vote, it polls again and again without a wait")}
