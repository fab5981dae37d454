"""Brokers as processes whose metadata log is shortened by snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ClusterMetadata, NewTopic

from tests.nodes.reference.brokers.conftest import Brokers

SMALL = {
    "metadata.log.max.record.bytes.between.snapshots": 2000,
    "metadata.max.retention.bytes": 1,
    "metadata.log.segment.bytes": 500,
}


def metadata_log(brokers: Brokers, node: int) -> Path:
    """The directory of a node's metadata log."""
    return brokers.directory / str(node) / "__cluster_metadata-0"


def all_in_sync(seen: ClusterMetadata) -> bool:
    """Whether every partition has all its replicas in sync."""
    partitions = [topic.partitions[0] for topic in seen.topics.values()]
    return all(len(each.isrs) == len(each.replicas) for each in partitions)


def create(brokers: Brokers, first: int, last: int) -> None:
    """Create the topics t<first> to t<last - 1>, with a replica on each broker that is live."""
    replicas = len(brokers.all_live().brokers)
    topics = [NewTopic(f"t{number}", 1, replicas, config={"min.insync.replicas": "2"}) for number in range(first, last)]
    for created in brokers.admin.create_topics(topics).values():
        created.result()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("brokers", [SMALL], indirect=True)
def test_a_broker_that_is_behind_the_log_gets_the_snapshot_and_serves_new_topics(brokers: Brokers) -> None:
    create(brokers, 0, 5)
    brokers.kill(3)
    create(brokers, 5, 25)
    brokers.start(3)
    brokers.seen(lambda _: "Fully truncated the log at snapshot" in brokers.log(3).read_text())
    brokers.all_live()
    brokers.seen(lambda seen: len(seen.topics) == 25 and all_in_sync(seen))
    for node in (1, 2, 3):
        (snapshot,) = metadata_log(brokers, node).glob("*.checkpoint")
        first, *later = sorted(metadata_log(brokers, node).glob("*.log"))
        end = int(snapshot.stem.split("-")[0])
        assert 0 < int(first.stem) <= end, "the snapshot has what precedes the log"
        assert all(int(each.stem) >= end for each in later), "what it covers was removed"
    for node in (1, 2, 3):
        brokers.kill(node)
    brokers.start(1, 2, 3)
    brokers.all_live()
    assert len(brokers.seen(lambda seen: len(seen.topics) == 25).topics) == 25
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all", "log_level": 0})
    errors: list[object] = []
    producer.produce("t24", b"v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]
