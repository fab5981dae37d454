"""The logs of simulated nodes are record batches, as a real node's files have them."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from nodes.observe.log_batches import batches_of
from nodes.wire import codec
from nodes.wire.batches import heads, intact_length
from tests.support.nodes.simulated_kafka import VERSIONS
from workloads.register import write_of

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("version", VERSIONS)
def test_all_nodes_have_the_same_batches_up_to_the_high_watermark(story, version):
    run = story(version)
    run.start()
    leader = run.leader()
    run.ask(leader, write_of(["r"], 5))
    run.until(lambda: all(run.cluster.status(node).high_watermark >= 2 for node in run.nodes))
    logs = [run.cluster.log(node) for node in run.nodes]
    committed = run.cluster.status(leader).high_watermark
    assert all(intact_length(log) == len(log) > 0 for log in logs)
    seen = [[(head.base_offset, head.leader_epoch, head.crc) for head in heads(log)] for log in logs]
    assert len({tuple(row for row in rows if row[0] < committed) for rows in seen}) == 1
    first = next(heads(logs[0]))
    assert first.is_control  # LeaderChange


def test_the_log_of_a_node_that_is_down_is_what_its_disk_has(story):
    run = story()
    run.start()
    run.leader()
    log = run.cluster.log(1)
    run.cluster.kill(1)
    assert run.cluster.log(1) == log
    run.cluster.lose_disk(1)
    assert run.cluster.log(1) == b""


def test_the_voters_that_the_log_names_are_read_from_its_batches(story):
    run = story(nodes=4, voters=3)
    run.start()
    leader = run.leader()
    removed = next(node for node in (1, 2, 3) if node != leader)
    voter = {"voter_id": removed, "voter_directory_id": run.cluster.directory_id(removed)}
    request = codec.build(codec.REMOVE_RAFT_VOTER, 0, "request", {"cluster_id": None, **voter})
    assert run.ask(leader, request).error_code is ErrorCode.none
    named = [each.voters for each in batches_of(leader, ("__cluster_metadata", 0), run.cluster.log(leader))]
    assert named[-1] == str([node for node in (1, 2, 3) if node != removed])
