"""Where a partition is: what the active controller and the brokers must answer before a report counts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.model import Op, PeerFailure
from harness.model.faults.membership import Placement, Refused
from nodes.kafka.membership import ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS, METADATA
from nodes.kafka.partition_moves import PartitionMoves

OP = Op("invoke", "partition", key="log-2")
MOVE = Op("invoke", "move", key="log-2", value=[4, 5])


class Cluster:
    """Answers for every node; ongoing has one value for each list, the last one for ever."""

    def __init__(
        self,
        ongoing: Sequence[tuple[tuple[int, ...], tuple[int, ...]] | None] = (None,),
        replicas: Mapping[int, tuple[int, ...]] | None = None,
        refusal: ErrorCode = ErrorCode.unknown_topic_or_partition,
    ) -> None:
        self.ongoing, self.refusal = list(ongoing), refusal
        self.replicas = {4: (1, 2), 5: (2, 1)} if replicas is None else replicas
        self.asked: list[tuple[int, int]] = []

    def connect(self, node: int) -> Node:
        return Node(self, node)

    def answer(self, node: int, api_key: int, values: Any) -> Any:
        self.asked.append((node, api_key))
        if api_key == ALTER_PARTITION_REASSIGNMENTS:
            (topic,) = values["topics"]
            error = ErrorCode.none if topic["name"] == "log" else self.refusal
            return response(responses=[response(partitions=[response(error_code=error)])])
        if api_key == LIST_PARTITION_REASSIGNMENTS:
            move = self.ongoing.pop(0) if len(self.ongoing) > 1 else self.ongoing[0]
            return response(topics=[] if move is None else [response(name="log", partitions=[ongoing(*move)])])
        replicas = self.replicas[node]
        placed = response(partition_index=2, leader_id=1, replica_nodes=replicas, isr_nodes=replicas)
        return response(topics=[response(name="log", is_internal=False, partitions=[placed])])


class Node:
    """A connection to one node."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self.cluster, self.node = cluster, node

    async def call(self, request: Any, timeout_ms: int) -> Any:
        raise AssertionError(f"expected no request of one version, found {request} within {timeout_ms} ms")

    async def call_latest(self, api_key: int, values: Any, _timeout_ms: int) -> Any:
        return self.cluster.answer(self.node, api_key, values)

    async def close(self) -> None:
        return None


def response(**fields: Any) -> Any:
    return SimpleNamespace(**{"error_code": ErrorCode.none, "error_message": None} | fields)


def ongoing(replicas: tuple[int, ...], removing: tuple[int, ...]) -> Any:
    return response(partition_index=2, replicas=replicas, adding_replicas=(), removing_replicas=removing)


def moves_of(cluster: Cluster) -> PartitionMoves:
    return PartitionMoves({1: "a", 2: "b"}, 9093, cluster.connect, [4, 5], cluster.connect)


def placement(cluster: Cluster) -> Placement:
    return asyncio.run(moves_of(cluster).placement(1, OP))


def test_ongoing_reassignment_ends_without_the_replicas_that_it_removes() -> None:
    cluster = Cluster([((4, 5, 1, 2), (1, 2))])
    assert placement(cluster) == Placement(target=(4, 5))
    assert cluster.asked == [(1, ALTER_PARTITION_REASSIGNMENTS), (1, LIST_PARTITION_REASSIGNMENTS)]


def test_replicas_count_if_all_brokers_report_the_same_and_nothing_is_ongoing() -> None:
    cluster = Cluster()
    assert placement(cluster) == Placement(replicas=(1, 2))
    assert cluster.asked[2:] == [(4, METADATA), (5, METADATA), (1, LIST_PARTITION_REASSIGNMENTS)]


@pytest.mark.parametrize(
    "cluster",
    [Cluster(replicas={4: (1, 2), 5: (1, 2, 4)}), Cluster([None, ((4, 5, 1, 2), (1, 2))])],
    ids=["a broker lags", "a reassignment begins meanwhile"],
)
def test_otherwise_it_is_not_known_where_the_partition_is(cluster: Cluster) -> None:
    assert placement(cluster) == Placement()


def test_node_that_is_not_the_active_controller_is_not_believed() -> None:
    cluster = Cluster(refusal=ErrorCode.not_controller)
    with pytest.raises(Refused, match="not_controller"):
        placement(cluster)
    assert cluster.asked == [(1, ALTER_PARTITION_REASSIGNMENTS)]
    with pytest.raises(PeerFailure, match="expected UNKNOWN_TOPIC_OR_PARTITION, and it was accepted"):
        placement(Cluster(refusal=ErrorCode.none))


def test_move_is_requested_of_the_leader() -> None:
    cluster = Cluster()
    asyncio.run(moves_of(cluster).move(2, MOVE))
    assert cluster.asked == [(2, ALTER_PARTITION_REASSIGNMENTS)]
