"""Retention, compaction and DeleteRecords of brokers that run, seen by librdkafka and in their files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from nodes.wire.batches import heads
from tests.nodes.reference.brokers.conftest import Brokers

SOON = {"log.retention.check.interval.ms": 100, "log.cleaner.backoff.ms": 100}
WITHIN_S = 30.0


def create(brokers: Brokers, **configs: str) -> None:
    brokers.all_live()
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    topic = NewTopic("t", 1, replica_assignment=[[1, 2, 3]], config=dotted)
    for future in brokers.admin.create_topics([topic]).values():
        future.result()
    brokers.seen(lambda seen: "t" in seen.topics and len(seen.topics["t"].partitions[0].isrs) == 3)


def produce(brokers: Brokers, pairs: list[tuple[str, str]]) -> None:
    """One batch for each pair, so that small segments have one each."""
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "linger.ms": 0, "log_level": 0})
    for key, value in pairs:
        producer.produce("t", value, key)
        assert producer.flush(WITHIN_S) == 0


def consumed(brokers: Brokers) -> list[tuple[int, str, str | None]]:
    """Offset, key and value of each record from the beginning to the high watermark."""
    config = {"bootstrap.servers": brokers.bootstrap, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer({**config, "auto.offset.reset": "earliest", "log_level": 0})
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        found = []
        while True:
            message = consumer.poll(WITHIN_S)
            assert message is not None, "no end of the partition"
            if message.error():
                return found
            value = message.value()
            found.append((message.offset(), message.key().decode(), None if value is None else value.decode()))
    finally:
        consumer.close()


def until(brokers: Brokers, holds: Callable[[Mapping[int, list[int]]], bool]) -> None:
    """Wait until this holds of the first offsets of each broker's segments."""
    deadline = time.monotonic() + WITHIN_S
    while not holds(seen := starts(brokers)):
        assert time.monotonic() < deadline, f"not within {WITHIN_S} s: segments {seen}"
        time.sleep(0.05)


def starts(brokers: Brokers) -> Mapping[int, list[int]]:
    """The first offsets of each broker's segments."""
    return {node: sorted(int(each.stem) for each in logs(brokers, node)) for node in brokers.ports}


def logs(brokers: Brokers, node: int) -> list[Path]:
    return list((brokers.directory / str(node) / "t-0").glob("*.log"))


def first_offsets(brokers: Brokers) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "reader", "log_level": 0})
    try:
        return consumer.get_watermark_offsets(TopicPartition("t", 0), WITHIN_S)
    finally:
        consumer.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("brokers", [SOON], indirect=True)
def test_retention_by_size_deletes_the_oldest_segments_of_all_replicas(brokers: Brokers) -> None:
    create(brokers, retention_bytes="300", segment_bytes="100")
    produce(brokers, [("k", "x" * 60)] * 10)
    until(brokers, lambda seen: all(min(each) >= 6 for each in seen.values()))
    first, end = first_offsets(brokers)
    assert first >= 6
    assert end == 10
    assert [offset for offset, _, _ in consumed(brokers)] == list(range(first, 10))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("brokers", [SOON], indirect=True)
def test_retention_by_age_deletes_the_active_segment_too(brokers: Brokers) -> None:
    create(brokers, retention_ms="1")
    produce(brokers, [("k", "v")] * 3)
    until(brokers, lambda seen: seen == {1: [3], 2: [3], 3: [3]})
    assert first_offsets(brokers) == (3, 3)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("brokers", [SOON], indirect=True)
def test_compaction_keeps_the_latest_record_of_each_key_on_all_replicas(brokers: Brokers) -> None:
    create(brokers, cleanup_policy="compact", segment_bytes="200", min_cleanable_dirty_ratio="0.01")
    pairs = [(f"key-{number % 3}", f"value {number} {'x' * 40}") for number in range(30)]
    produce(brokers, [*pairs, ("last", "z" * 150)])
    until(brokers, lambda seen: all(sum(_counts(brokers, node)) <= 5 for node in seen))
    expected = {"key-0": 27, "key-1": 28, "key-2": 29, "last": 30}
    assert {key: offset for offset, key, _ in consumed(brokers)} == expected
    for node in (1, 2, 3):
        brokers.kill(node)
    brokers.start(1, 2, 3)
    brokers.all_live()
    assert {key: offset for offset, key, _ in consumed(brokers)} == expected


def _counts(brokers: Brokers, node: int) -> list[int]:
    """The records of each batch; read again if the cleaner replaces a file meanwhile."""
    try:
        return [head.record_count for path in logs(brokers, node) for head in heads(path.read_bytes())]
    except FileNotFoundError:
        return _counts(brokers, node)


@pytest.mark.timeout(120)
def test_deleted_records_stay_deleted_after_a_restart(brokers: Brokers) -> None:
    create(brokers)
    produce(brokers, [("k", f"v{number}") for number in range(10)])
    futures = brokers.admin.delete_records([TopicPartition("t", 0, 4)], operation_timeout=WITHIN_S)
    assert [future.result().low_watermark for future in futures.values()] == [4]
    assert first_offsets(brokers) == (4, 10)
    assert [offset for offset, _, _ in consumed(brokers)] == list(range(4, 10))
    for node in (1, 2, 3):
        brokers.stop(node)
    brokers.start(1, 2, 3)
    brokers.all_live()
    assert first_offsets(brokers) == (4, 10)


@pytest.mark.timeout(120)
def test_records_beyond_the_high_watermark_are_not_deleted(brokers: Brokers) -> None:
    create(brokers, cleanup_policy="delete")
    produce(brokers, [("k", "v")] * 3)
    (future,) = brokers.admin.delete_records([TopicPartition("t", 0, 4)]).values()
    assert "OFFSET_OUT_OF_RANGE" in str(future.exception())
    assert first_offsets(brokers) == (0, 3)


@pytest.mark.timeout(120)
def test_records_of_a_compacted_topic_are_not_deleted(brokers: Brokers) -> None:
    create(brokers, cleanup_policy="compact")
    produce(brokers, [("k", "v")] * 3)
    (future,) = brokers.admin.delete_records([TopicPartition("t", 0, 2)]).values()
    assert "POLICY_VIOLATION" in str(future.exception())
