"""Facts come from the leader's answer, the nodes' files and the cluster's addresses; what is unknown is an error."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from harness.model.placeholders import NAMES
from nodes.probe.facts import ClusterFacts


class FakeNode:
    """A node that leads epoch 7, or denies it."""

    def __init__(self, error: ErrorCode = ErrorCode.none) -> None:
        self.error = error

    async def call(self, _request: Any, _timeout_ms: int) -> Any:
        voters = [SimpleNamespace(replica_id=node, log_end_offset=40 + node) for node in (1, 2, 3)]
        fields = {
            "leader_id": 2,
            "leader_epoch": 7,
            "high_watermark": 30,
            "current_voters": voters,
            "observers": [],
            "target_voters": [],
        }
        topic = SimpleNamespace(partitions=[SimpleNamespace(error_code=self.error, **fields)])
        return SimpleNamespace(error_code=ErrorCode.none, topics=[topic])


def facts(leader: int | None = 2, answers: ErrorCode = ErrorCode.none) -> ClusterFacts:
    controllers = {node: f"10.0.0.{node}:9093" for node in (1, 2, 3)}
    nodes: Any = {node: FakeNode(answers) for node in (1, 2, 3)}
    return ClusterFacts(nodes, lambda: leader, controllers, {1: "10.0.0.1:9092"}, {1: 6}.get, "id")


def known(cluster: ClusterFacts, *names: str, node: int | None = 1) -> dict[str, Any]:
    return dict(asyncio.run(cluster.of(names, node)))


def test_each_placeholder_has_its_fact() -> None:
    assert known(facts(), *(name for name in NAMES if not name[1].isdigit())) == {
        "leader": 2,
        "node": 1,
        "other": 3,
        "own_epoch": 6,
        "epoch": 7,
        "log_end": 42,
        "high_watermark": 30,
        "cluster_id": "id",
        "controllers": "10.0.0.1:9093,10.0.0.2:9093,10.0.0.3:9093",
        "brokers": "10.0.0.1:9092",
    }
    nodes = known(facts(), "n3_controller", "n1_broker", "n3_host")
    assert nodes == {"n3_controller": "10.0.0.3:9093", "n1_broker": "10.0.0.1:9092", "n3_host": "10.0.0.3"}


def test_leader_is_not_called_for_other_facts() -> None:
    assert known(facts(leader=None), "cluster_id", "node") == {"cluster_id": "id", "node": 1}


@pytest.mark.parametrize(
    ("name", "leader", "error", "message"),
    [
        ("epoch", None, ErrorCode.none, "no node claims to lead"),
        ("epoch", 2, ErrorCode.not_leader_or_follower, "expected n2 to lead, found not_leader_or_follower"),
        ("leader", None, ErrorCode.none, "placeholder \\$leader: not known in this cluster now"),
        ("n2_broker", 2, ErrorCode.none, "placeholder \\$n2_broker: not known in this cluster now"),
    ],
)
def test_fact_that_is_not_known_is_an_error(name: str, leader: int | None, error: ErrorCode, message: str) -> None:
    with pytest.raises(PeerFailure, match=message):
        known(facts(leader, error), name)


def test_node_without_its_file_has_no_epoch_of_its_own() -> None:
    with pytest.raises(PeerFailure, match="own_epoch: not known"):
        known(facts(), "own_epoch", node=3)
