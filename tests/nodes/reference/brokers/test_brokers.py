"""Brokers as processes, asked by librdkafka and by requests of our own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kio.schema.errors import ErrorCode

from nodes.reference.brokers.shell import CLEAN_SHUTDOWN
from nodes.wire import codec
from nodes.wire.connection import WireConnection
from tests.nodes.reference.brokers.conftest import Brokers

ASSIGNED = [[1, 2, 3], [2, 3, 1]]


def with_topic(brokers: Brokers, assigned: list[list[int]] = ASSIGNED, **configs: str) -> None:
    """The topic t, with these replicas."""
    brokers.all_live()
    named = {name.replace("_", "."): value for name, value in configs.items()}
    topic = NewTopic("t", len(assigned), replica_assignment=assigned, config=named)
    brokers.admin.create_topics([topic])["t"].result()


def leaders(metadata: ClusterMetadata) -> list[int]:
    """The leaders of t's partitions."""
    return [each.leader for _, each in sorted(metadata.topics["t"].partitions.items())]


def isrs(metadata: ClusterMetadata) -> list[list[int]]:
    """The ISRs of t's partitions."""
    return [each.isrs for _, each in sorted(metadata.topics["t"].partitions.items())]


def call(brokers: Brokers, node: int, api_key: int, version: int, values: dict[str, Any]) -> Any:
    """The response of a broker to a request of this version."""

    async def calling() -> Any:
        connection = WireConnection("127.0.0.1", brokers.client_ports[node], "test")
        try:
            return await connection.call(codec.build(api_key, version, "request", values), 10_000)
        finally:
            await connection.close()

    return asyncio.run(calling())


def test_librdkafka_sees_brokers_and_topics(brokers: Brokers) -> None:
    with_topic(brokers)
    metadata = brokers.seen(lambda seen: "t" in seen.topics)
    assert {node: broker.port for node, broker in metadata.brokers.items()} == brokers.client_ports
    assert leaders(metadata) == [1, 2]
    assert isrs(metadata) == ASSIGNED


def test_a_killed_broker_is_replaced_and_returns(brokers: Brokers) -> None:
    with_topic(brokers)
    brokers.kill(1)
    assert leaders(brokers.seen(lambda seen: leaders(seen) == [2, 2])) == [2, 2]
    brokers.start(1)
    assert isrs(brokers.all_live()) == [[2, 3], [2, 3]]


def test_a_broker_that_is_asked_to_stop_is_relieved_first(brokers: Brokers) -> None:
    with_topic(brokers)
    assert brokers.stop(1) == 0
    assert leaders(brokers.seen(lambda seen: 1 not in seen.brokers)) == [2, 2]
    marker = brokers.directory / "1" / CLEAN_SHUTDOWN
    assert json.loads(marker.read_text())["brokerEpoch"] >= 0
    brokers.start(1)
    brokers.all_live()
    assert not marker.exists()


@pytest.mark.parametrize("brokers", [{"reference.eligible_leader_replicas": "false"}], indirect=True)
def test_a_partition_without_a_live_replica_of_the_isr_is_offline(brokers: Brokers) -> None:
    with_topic(brokers, [[3, 2]])
    brokers.kill(2)
    brokers.seen(lambda seen: isrs(seen) == [[3]])
    brokers.start(2)
    brokers.all_live()
    brokers.kill(3)
    assert isrs(brokers.seen(lambda seen: leaders(seen) == [-1])) == [[3]]
    elect = {"election_type": 1, "topic_partitions": [{"topic": "t", "partitions": (0,)}], "timeout": 1000}
    response = call(brokers, 2, codec.ELECT_LEADERS, 2, elect)
    (result,) = response.replica_election_results[0].partition_result
    assert result.error_code is ErrorCode.none
    assert leaders(brokers.seen(lambda seen: leaders(seen) == [2])) == [2]


def test_every_broker_forwards_requests_to_the_controller(brokers: Brokers) -> None:
    brokers.all_live()
    for node in brokers.ports:
        topic = {"name": f"t{node}", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        values = {"topics": [topic], "timeout": 1000, "validate_only": False}
        assert call(brokers, node, codec.CREATE_TOPICS, 7, values).topics[0].error_code is ErrorCode.none
    assert brokers.seen(lambda seen: len(seen.topics) == 3).topics.keys() == {"t1", "t2", "t3"}


def test_configs_are_changed_and_described(brokers: Brokers) -> None:
    with_topic(brokers, min_insync_replicas="2")
    change = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[change])
    brokers.admin.incremental_alter_configs([resource])[resource].result()
    described = ConfigResource(ResourceType.TOPIC, "t")
    found = brokers.admin.describe_configs([described])[described].result()
    values = {name: entry.value for name, entry in found.items()}
    assert values == {
        "min.insync.replicas": "2",
        "retention.ms": "1000",
        "unclean.leader.election.enable": "false",
    }


def test_the_quorum_is_described_by_any_broker(brokers: Brokers) -> None:
    brokers.all_live()
    quorum = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    for node in brokers.ports:
        partition = call(brokers, node, codec.DESCRIBE_QUORUM, 2, quorum).topics[0].partitions[0]
        assert partition.leader_id in brokers.ports
        assert len(partition.current_voters) == 3
