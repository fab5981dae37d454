"""Snapshots of simulated nodes: made, loaded at a start, fetched from a leader that has deleted its log (KIP-630)."""

from __future__ import annotations

import pytest

from nodes.simulation.kafka.cluster import SNAPSHOT_SETTINGS
from nodes.wire import codec
from nodes.wire.batches import heads
from tests.support.nodes.simulated_kafka import VERSIONS

pytestmark = pytest.mark.kafka

SMALL = dict(zip(SNAPSHOT_SETTINGS, ("300", "1"), strict=True))
WRITES = 12


def led(story, version="4.3.1", **fields):
    """A story whose nodes make small snapshots and delete the log before them, and its leader."""
    nodes = fields.setdefault("nodes", 3)
    run = story(version, switches=dict.fromkeys(range(1, nodes + 1), SMALL), **fields)
    run.start()
    leader = run.leader()
    run.pass_ms(1_000)
    return run, leader


def write_some(run, leader):
    """Writes to a few registers; returns the last value of each."""
    values = {f"r{number % 5}": number for number in range(WRITES)}
    for number in range(WRITES):
        assert run.write(leader, f"r{number % 5}", number) == ("none", None)
    return {register: str(value) for register, value in values.items()}


def is_shortened(run, node):
    """Whether the log no longer begins at offset 0."""
    first = next(heads(run.cluster.log(node)), None)
    return first is None or first.base_offset > 0


def has(run, node, values):
    return {register: run.read(node, register) for register in values} == values


@pytest.mark.parametrize("version", VERSIONS)
def test_a_follower_fetches_a_snapshot_when_the_leader_has_deleted_its_log(story, version):
    run, leader = led(story, version)
    follower = run.follower()
    run.isolate(follower)
    values = write_some(run, leader)
    assert is_shortened(run, leader)
    run.cluster.restore()
    run.until(lambda: has(run, follower, values))
    assert is_shortened(run, follower)
    assert run.cluster.violations == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_restarted_node_begins_with_its_snapshot(story, version):
    run, leader = led(story, version)
    values = write_some(run, leader)
    run.pass_ms(1_000)
    follower = run.follower()
    assert is_shortened(run, follower)
    run.cluster.kill(follower)
    run.cluster.start(follower)
    run.until(lambda: has(run, follower, values))
    assert run.cluster.violations == ()


def test_a_node_without_small_snapshots_keeps_its_log(story):
    run = story()
    run.start()
    write_some(run, leader := run.leader())
    assert not is_shortened(run, leader)


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_a_snapshot_names_the_voters_at_its_end(story, version):
    run, leader = led(story, version, nodes=4, voters=3)
    removed = next(node for node in (1, 2, 3) if node != leader)
    voter = {"voter_id": removed, "voter_directory_id": run.cluster.directory_id(removed)}
    run.ask(leader, codec.build(codec.REMOVE_RAFT_VOTER, 0, "request", {"cluster_id": None, **voter}))
    run.isolate(4)
    write_some(run, leader)
    run.cluster.restore()
    run.until(lambda: is_shortened(run, 4))
    assert set(run.cluster.status(4).voters) == {1, 2, 3} - {removed}
    assert run.cluster.violations == ()
