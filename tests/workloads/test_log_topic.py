"""Creation of the log's topic: it waits for brokers and replicas, and fails with what is missing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.model import PeerFailure
from workloads import log_topic
from workloads.log_topic import create

ADDRESSES = {1: "10.77.0.1", 2: "10.77.0.2", 3: "10.77.0.3", 4: "10.77.0.4"}


class FakeCluster:
    """The number of brokers and in-sync replicas in each successive response."""

    def __init__(self, brokers, in_sync, created=()):
        self.brokers = brokers
        self.in_sync = in_sync
        self.topics = set(created)
        self.requested = []
        self.timeouts = 0

    def list_topics(self, topic=None, timeout=-1):
        assert timeout > 0
        if topic is None:
            brokers = self.brokers.pop(0) if len(self.brokers) > 1 else self.brokers[0]
            return SimpleNamespace(brokers=dict.fromkeys(range(1, brokers + 1)), topics=self.topics)
        in_sync = self.in_sync.pop(0) if len(self.in_sync) > 1 else self.in_sync[0]
        partition = SimpleNamespace(leader=1, replicas=[1, 2, 3], isrs=list(range(1, in_sync + 1)))
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=dict.fromkeys(range(4), partition))})

    def create_topics(self, topics, operation_timeout):
        assert operation_timeout > 0
        self.requested += topics
        self.topics.add(topics[0].topic)
        return {topics[0].topic: SimpleNamespace(result=self._result)}

    def _result(self, timeout):
        assert timeout > 0
        if self.timeouts:
            self.timeouts -= 1
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


@pytest.fixture
def prepare(monkeypatch):
    """Creates the topic in a cluster."""

    def prepare(cluster):
        monkeypatch.setattr(log_topic, "AdminClient", lambda _settings: cluster)
        monkeypatch.setattr(log_topic, "POLL_SECONDS", 0.001)
        monkeypatch.setattr(log_topic, "PREPARE_SECONDS", 0.2)
        asyncio.run(create(ADDRESSES))

    return prepare


def test_topic_is_created_once_all_brokers_are_registered(prepare):
    cluster = FakeCluster(brokers=[0, 2, 3, 4], in_sync=[0, 1, 3])
    prepare(cluster)
    (topic,) = cluster.requested
    assert (topic.topic, topic.num_partitions, topic.replication_factor) == ("log", 4, 3)
    assert (cluster.brokers, cluster.in_sync) == ([4], [3])


def test_topic_created_by_a_request_that_timed_out_is_accepted(prepare):
    cluster = FakeCluster(brokers=[4], in_sync=[3])
    cluster.timeouts = 1
    prepare(cluster)
    assert len(cluster.requested) == 1


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (FakeCluster(brokers=[3], in_sync=[3]), r"expected 4 registered brokers, found \[1, 2, 3\]"),
        (FakeCluster(brokers=[4], in_sync=[2]), "0 of 4 partitions have a leader and all replicas in sync"),
    ],
    ids=["a broker", "an in-sync replica"],
)
def test_failure_names_what_is_missing(prepare, cluster, message):
    with pytest.raises(PeerFailure, match=f"preparing topic log: not ready after 0.2 s: {message}"):
        prepare(cluster)
