"""Partitions with chosen replicas, and batches on chosen brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from nodes.kafka.requests import KafkaRequests


class FakeBroker:
    """A broker that records what it is asked."""

    def __init__(self) -> None:
        self.called: list[Any] = []
        self.error = ErrorCode.none

    async def call_latest(self, api_key: int, values: Mapping[str, Any], _timeout_ms: int) -> Any:
        self.called.append((api_key, values["topics"]))
        return SimpleNamespace(topics=[SimpleNamespace(error_code=self.error, error_message="so it is")])


class Cluster:
    """Two brokers, the second of which leads; written are the batches."""

    def __init__(self, leader: int | None = 2) -> None:
        self.brokers = {1: FakeBroker(), 2: FakeBroker()}
        self.written: list[Any] = []
        self.requests = KafkaRequests(
            {},
            self.brokers,
            lambda node, *_: self.brokers[node],  # type: ignore[arg-type, return-value]
            lambda: leader,
            self.write,
        )

    async def write(
        self, broker: Any, topic: str, partition: int, values: Any, key: Any, acks: int, now_ms: int, _timeout_ms: int
    ) -> int:
        assert now_ms > 0
        self.written.append((broker, topic, partition, list(values), key, acks))
        return 20


def test_partition_with_its_replicas_is_requested_from_the_leader() -> None:
    cluster = Cluster()
    asyncio.run(cluster.requests.create_partition("t", (2, 1), {"min.insync.replicas": "1"}))
    ((api_key, (topic,)),) = cluster.brokers[2].called
    assert topic["configs"] == [{"name": "min.insync.replicas", "value": "1"}]
    assert api_key == 19
    assert topic["assignments"] == [{"partition_index": 0, "broker_ids": [2, 1]}]
    assert (topic["num_partitions"], topic["replication_factor"]) == (-1, -1)
    assert cluster.brokers[1].called == []


def test_partition_that_is_refused_is_a_peer_failure() -> None:
    cluster = Cluster()
    cluster.brokers[2].error = ErrorCode.topic_already_exists
    with pytest.raises(PeerFailure, match=r"creating t-0 on n2, n1: topic_already_exists \(so it is\)"):
        asyncio.run(cluster.requests.create_partition("t", (2, 1), {}))


def test_partition_needs_a_leader() -> None:
    with pytest.raises(PeerFailure, match="creating t-0 on n1: no node claims to be the leader"):
        asyncio.run(Cluster(leader=None).requests.create_partition("t", (1,), {}))


@pytest.mark.parametrize(("acks", "number"), [("leader", 1), ("all", -1)])
def test_batch_is_written_to_the_chosen_broker(acks: Any, number: int) -> None:
    cluster = Cluster()
    assert asyncio.run(cluster.requests.produce(1, ("t", 3), 2, acks, "k")) == 20
    assert cluster.written == [(cluster.brokers[1], "t", 3, [b"record 0 at n1", b"record 1 at n1"], b"k", number)]


def test_batch_is_not_written_to_a_node_that_is_no_broker() -> None:
    with pytest.raises(PeerFailure, match="writing 2 records to n3: n3 is not a broker"):
        asyncio.run(Cluster().requests.produce(3, ("t", 0), 2, "all", None))
