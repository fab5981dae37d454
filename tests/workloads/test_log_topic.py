"""The log's topic comes about before clients begin, however long brokers take, or the run ends with what is missing."""

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
    """Brokers and in-sync copies that come one by one, each time somebody looks."""

    def __init__(self, brokers, in_sync, created=()):
        self.brokers = brokers
        self.in_sync = in_sync
        self.topics = set(created)
        self.asked = []
        self.refusals = 0

    def list_topics(self, topic=None, timeout=-1):
        assert timeout > 0
        if topic is None:
            here = self.brokers.pop(0) if len(self.brokers) > 1 else self.brokers[0]
            return SimpleNamespace(brokers=dict.fromkeys(range(1, here + 1)), topics=self.topics)
        in_sync = self.in_sync.pop(0) if len(self.in_sync) > 1 else self.in_sync[0]
        partition = SimpleNamespace(leader=1, replicas=[1, 2, 3], isrs=list(range(1, in_sync + 1)))
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=dict.fromkeys(range(4), partition))})

    def create_topics(self, topics, operation_timeout):
        assert operation_timeout > 0
        self.asked += topics
        self.topics.add(topics[0].topic)
        return {topics[0].topic: SimpleNamespace(result=self._result)}

    def _result(self, timeout):
        assert timeout > 0
        if self.refusals:
            self.refusals -= 1
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


def test_the_topic_is_asked_for_when_every_broker_is_there_and_waited_for(prepare):
    cluster = FakeCluster(brokers=[0, 2, 3, 4], in_sync=[0, 1, 3])
    prepare(cluster)
    (wanted,) = cluster.asked
    assert (wanted.topic, wanted.num_partitions, wanted.replication_factor) == ("log", 4, 3)
    assert (cluster.brokers, cluster.in_sync) == ([4], [3])


def test_a_request_that_nobody_answered_may_have_created_it(prepare):
    cluster = FakeCluster(brokers=[4], in_sync=[3])
    cluster.refusals = 1
    prepare(cluster)
    assert len(cluster.asked) == 1


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (FakeCluster(brokers=[3], in_sync=[3]), r"of 4 brokers \[1, 2, 3\] are there"),
        (FakeCluster(brokers=[4], in_sync=[2]), "0 of 4 partitions are led and in sync"),
    ],
    ids=["a broker", "a copy in sync"],
)
def test_what_is_missing_in_the_end_is_told(prepare, cluster, message):
    with pytest.raises(PeerFailure, match=f"preparing topic log: not done after 0.2 s: {message}"):
        prepare(cluster)
