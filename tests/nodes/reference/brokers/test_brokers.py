"""Brokers as processes, asked by librdkafka and by requests of our own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    PartitionMetadata,
    ResourceType,
)
from kio.schema.errors import ErrorCode

from harness.model.errors import EXIT_INTERNAL
from nodes.observe.brokers.metadata import REQUEST
from nodes.reference.brokers.log_store import RECOVERY_POINTS
from nodes.reference.brokers.shell import CLEAN_SHUTDOWN
from nodes.reference.core.partitions.log_config import LOG_DEFAULTS
from nodes.wire import codec
from nodes.wire.connection import WireConnection
from tests.nodes.reference.brokers.conftest import Brokers
from tests.support.command import wait_until

ASSIGNED = [[1, 2, 3], [2, 3, 1]]


def with_topic(brokers: Brokers, assigned: list[list[int]] = ASSIGNED, **configs: str) -> None:
    """The topic t, with these replicas."""
    brokers.all_live()
    named = {name.replace("_", "."): value for name, value in configs.items()}
    topic = NewTopic("t", len(assigned), replica_assignment=assigned, config=named)
    brokers.admin.create_topics([topic])["t"].result()


def partitions(metadata: ClusterMetadata) -> list[PartitionMetadata]:
    """t's partitions; none if the broker that answered does not know the topic yet."""
    topic = metadata.topics.get("t")
    return [] if topic is None else [each for _, each in sorted(topic.partitions.items())]


def leaders(metadata: ClusterMetadata) -> list[int]:
    """The leaders of t's partitions."""
    return [each.leader for each in partitions(metadata)]


def isrs(metadata: ClusterMetadata) -> list[list[int]]:
    """The ISRs of t's partitions."""
    return [each.isrs for each in partitions(metadata)]


def produce(brokers: Brokers, count: int, is_idempotent: bool = False) -> list[int]:
    """The offsets of this many acknowledged records of partition 0, whose values are their numbers."""
    settings = {"bootstrap.servers": brokers.bootstrap, "enable.idempotence": is_idempotent, "acks": "all"}
    producer, offsets = Producer({**settings, "linger.ms": 0, "log_level": 0}), []

    def delivered(error: object, message: Message) -> None:
        assert error is None
        offsets.append(message.offset())

    for number in range(count):
        producer.produce("t", str(number).encode(), partition=0, on_delivery=delivered)
    assert producer.flush(30) == 0
    return offsets


def consumed(brokers: Brokers, count: int) -> list[str]:
    """The values of the first records of partition 0."""
    consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "none", "log_level": 0})
    consumer.assign([TopicPartition("t", 0, 0)])
    values: list[str] = []
    while len(values) < count:
        messages = consumer.consume(count, 20)
        assert messages, f"after {len(values)} of {count} records nothing came for 20 s"
        values += [message.value().decode() for message in messages if message.error() is None]
    return values


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
    brokers.seen(lambda seen: [sorted(isr) for isr in isrs(seen)] == [[1, 2, 3], [1, 2, 3]])


def test_a_broker_that_is_asked_to_stop_is_relieved_first(brokers: Brokers) -> None:
    with_topic(brokers)
    assert brokers.stop(1) == 0
    assert leaders(brokers.seen(lambda seen: 1 not in seen.brokers)) == [2, 2]
    marker = brokers.directory / "1" / CLEAN_SHUTDOWN
    assert json.loads(marker.read_text())["brokerEpoch"] >= 0
    brokers.start(1)
    brokers.all_live()
    assert not marker.exists()


@pytest.mark.parametrize("name", [CLEAN_SHUTDOWN, RECOVERY_POINTS])
def test_a_broker_that_cannot_write_at_its_end_says_so_in_one_line(brokers: Brokers, name: str) -> None:
    with_topic(brokers)
    (brokers.directory / "1" / name).unlink(missing_ok=True)
    (brokers.directory / "1" / name).mkdir()
    assert brokers.stop(1) == EXIT_INTERNAL
    assert brokers.log(1).read_text().endswith(f"writing to {brokers.directory / '1'}: Is a directory\n")
    assert "Traceback" not in brokers.log(1).read_text()


@pytest.mark.parametrize("brokers", [{"nodes": 4, "reference.eligible_leader_replicas": "false"}], indirect=True)
def test_a_partition_without_a_live_replica_of_the_isr_is_offline(brokers: Brokers) -> None:
    with_topic(brokers, [[4, 3]], min_insync_replicas="1")
    produce(brokers, 10)
    brokers.kill(3)
    brokers.seen(lambda seen: isrs(seen) == [[4]])
    produce(brokers, 5)
    brokers.kill(4)
    brokers.start(3)
    assert isrs(brokers.seen(lambda seen: 3 in seen.brokers and leaders(seen) == [-1])) == [[4]]
    elect = {"election_type": 1, "topic_partitions": [{"topic": "t", "partitions": (0,)}], "timeout": 1000}
    response = call(brokers, 1, codec.ELECT_LEADERS, 2, elect)
    (result,) = response.replica_election_results[0].partition_result
    assert result.error_code is ErrorCode.none
    brokers.seen(lambda seen: leaders(seen) == [3])
    brokers.start(4)
    brokers.seen(lambda seen: isrs(seen) == [[3, 4]])
    assert consumed(brokers, 10) == [str(number) for number in range(10)]


@pytest.mark.parametrize("is_idempotent", [False, True], ids=["plain", "idempotent"])
def test_acknowledged_records_survive_their_leader(brokers: Brokers, is_idempotent: bool) -> None:
    with_topic(brokers, [[1, 2, 3]], min_insync_replicas="2")
    assert produce(brokers, 500, is_idempotent) == list(range(500))
    brokers.kill(1)
    brokers.seen(lambda seen: leaders(seen) == [2])
    assert produce(brokers, 100, is_idempotent) == list(range(500, 600))
    brokers.start(1)
    brokers.seen(lambda seen: sorted(isrs(seen)[0]) == [1, 2, 3])
    assert consumed(brokers, 600) == [*map(str, range(500)), *map(str, range(100))]
    for process in brokers.running.values():
        process.terminate()  # all at once: the last two have no quorum that could relieve them
    assert {process.wait(timeout=20) for process in brokers.running.values()} == {0}
    logs = {(brokers.directory / str(node) / "t-0" / f"{0:020d}.log").read_bytes() for node in brokers.ports}
    assert len(logs) == 1


@pytest.mark.parametrize("version", [0, 1], ids=["KAFKA-20098", "KIP-966"])
def test_brokers_report_their_replicas_logs(brokers: Brokers, version: int) -> None:
    with_topic(brokers, [[1, 2, 3]], min_insync_replicas="2")
    produce(brokers, 7)
    topic_id = call(brokers, 1, codec.METADATA, 12, dict(REQUEST)).topics[0].topic_id
    asked = {"topic_partitions": [{"topic_id": topic_id, "partitions": (0, 5)}]}
    for node in brokers.ports:
        response = call(brokers, node, codec.GET_REPLICA_LOG_INFO, version, asked)
        known, unknown = response.topic_partition_log_info_list[0].partition_log_info
        assert (known.log_end_offset, known.partition_leader_epoch, known.error_code) == (7, 0, ErrorCode.none)
        assert getattr(known, "last_written_leader_epoch", 0) == 0
        assert unknown.error_code is ErrorCode.unknown_topic_or_partition


def test_a_topic_that_is_created_again_is_empty(brokers: Brokers) -> None:
    with_topic(brokers, [[1, 2, 3]])
    assert produce(brokers, 5) == list(range(5))
    brokers.admin.delete_topics(["t"])["t"].result()
    brokers.seen(lambda seen: "t" not in seen.topics)
    with_topic(brokers, [[1, 2, 3]])
    assert produce(brokers, 2) == [0, 1]


def test_topics_get_more_partitions_and_are_described_in_pages(brokers: Brokers) -> None:
    with_topic(brokers, [[1, 2, 3]])
    brokers.admin.create_partitions([NewPartitions("t", 3, [[2, 3, 1], [3, 1, 2]])])["t"].result()
    assert leaders(brokers.seen(lambda seen: len(seen.topics["t"].partitions) == 3)) == [1, 2, 3]
    pages, cursor = [], None
    for _ in range(2):
        asked = {"topics": [{"name": "t"}], "response_partition_limit": 2, "cursor": cursor}
        page = call(brokers, 1, codec.DESCRIBE_TOPIC_PARTITIONS, 0, asked)
        pages.append([each.partition_index for each in page.topics[0].partitions])
        cursor = page.next_cursor and {"topic_name": "t", "partition_index": page.next_cursor.partition_index}
    assert (pages, cursor) == ([[0, 1], [2]], None)


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
    values: dict[str, str | None] = {}

    def is_changed() -> bool:  # a broker follows the metadata, so that it may describe the configs as they were before
        found = brokers.admin.describe_configs([described])[described].result()
        values.update({name: entry.value for name, entry in found.items()})
        return values["retention.ms"] == "1000"

    wait_until(is_changed, "the broker that is asked knows the change")
    assert values == {
        **LOG_DEFAULTS,
        "min.insync.replicas": "2",
        "retention.ms": "1000",
        "unclean.leader.election.enable": "false",
        "unclean.recovery.strategy": "None",
    }


def test_the_quorum_is_described_by_any_broker(brokers: Brokers) -> None:
    brokers.all_live()
    quorum = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    for node in brokers.ports:
        partition = call(brokers, node, codec.DESCRIBE_QUORUM, 2, quorum).topics[0].partitions[0]
        assert partition.leader_id in brokers.ports
        assert len(partition.current_voters) == 3
