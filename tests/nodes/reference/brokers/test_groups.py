"""Consumer groups of librdkafka on brokers as processes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, TopicPartition
from confluent_kafka.admin import NewTopic
from kio.schema.errors import ErrorCode

from nodes.reference.core.groups.coordinator import partition_of
from nodes.reference.core.groups.settings import OFFSETS_TOPIC
from nodes.wire import codec
from tests.nodes.reference.brokers.conftest import Brokers
from tests.nodes.reference.brokers.test_brokers import call, produce

GROUP = "g"
FAST = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 3}
fast = pytest.mark.parametrize("brokers", [FAST], indirect=True)
LIMIT_S = 30


class Member:
    """A consumer of the topic t in the group."""

    def __init__(self, brokers: Brokers, instance: str | None = None) -> None:
        self.revocations = 0
        self.consumer = Consumer(
            {
                "bootstrap.servers": brokers.bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 300,
                "log_level": 0,
                **({} if instance is None else {"group.instance.id": instance}),
            }
        )
        self.consumer.subscribe(["t"], on_revoke=self._revoked)
        self.got: list[Message] = []

    def _revoked(self, *_: object) -> None:
        self.revocations += 1

    def poll(self) -> None:
        """Take what there is."""
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.got.append(message)

    @property
    def owned(self) -> set[int]:
        """The partitions that are assigned to it."""
        return {each.partition for each in self.consumer.assignment()}

    @property
    def values(self) -> list[bytes]:
        """What it has got."""
        return [each.value() or b"" for each in self.got]


def until(holds: Callable[[], object], *members: Member) -> None:
    """Poll until this holds."""
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, [(each.owned, each.values) for each in members]
        for each in members:
            each.poll()


def with_topic(brokers: Brokers, partitions: int) -> None:
    """The topic t, which any two brokers have."""
    brokers.all_live()
    brokers.admin.create_topics([NewTopic("t", partitions, 3, config={"min.insync.replicas": "2"})])["t"].result()


def coordinator(brokers: Brokers) -> int:
    """The broker that coordinates the group."""
    topic = brokers.seen(lambda seen: OFFSETS_TOPIC in seen.topics).topics[OFFSETS_TOPIC]
    return int(topic.partitions[partition_of(GROUP, len(topic.partitions))].leader)


@fast
def test_members_share_the_partitions_and_take_over_from_one_that_leaves(brokers: Brokers) -> None:
    with_topic(brokers, 4)
    first, second = Member(brokers), Member(brokers)
    until(lambda: first.owned | second.owned == {0, 1, 2, 3} and len(first.owned) == len(second.owned), first, second)
    second.consumer.close()
    until(lambda: first.owned == {0, 1, 2, 3}, first)
    first.consumer.close()


@fast
def test_committed_offsets_survive_their_coordinator(brokers: Brokers) -> None:
    with_topic(brokers, 1)
    produce(brokers, 10)
    first = Member(brokers)
    until(lambda: len(first.got) == 10, first)
    first.consumer.commit(message=first.got[5], asynchronous=False)
    brokers.kill(coordinator(brokers))
    brokers.all_live()
    produce(brokers, 1)
    until(lambda: len(first.got) == 11, first)
    committed = first.consumer.committed([TopicPartition("t", 0)], timeout=LIMIT_S)
    assert [each.offset for each in committed] == [6]

    first.consumer.close()
    second = Member(brokers)
    until(lambda: len(second.got) == 5, second)
    assert second.values == [b"6", b"7", b"8", b"9", b"0"]
    second.consumer.close()


@fast
def test_the_admin_client_sees_sets_and_deletes(brokers: Brokers) -> None:
    with_topic(brokers, 1)
    member = Member(brokers)
    until(lambda: member.owned, member)
    described = brokers.admin.describe_consumer_groups([GROUP])[GROUP].result()
    assert (described.state.name, described.partition_assignor) == ("STABLE", "range")
    [one] = described.members
    assert [(each.topic, each.partition) for each in one.assignment.topic_partitions] == [("t", 0)]
    assert [each.group_id for each in brokers.admin.list_consumer_groups().result().valid] == [GROUP]
    member.consumer.close()

    wanted = ConsumerGroupTopicPartitions(GROUP, [TopicPartition("t", 0, 7), TopicPartition("nowhere", 0, 1)])
    altered = brokers.admin.alter_consumer_group_offsets([wanted])[GROUP].result().topic_partitions
    errors = {each.topic: each.error.name() if each.error else None for each in altered}
    assert errors == {"t": None, "nowhere": "UNKNOWN_TOPIC_OR_PART"}
    listed = brokers.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])[GROUP].result()
    assert [(each.topic, each.partition, each.offset) for each in listed.topic_partitions] == [("t", 0, 7)]
    brokers.admin.delete_consumer_groups([GROUP])[GROUP].result()
    assert brokers.admin.list_consumer_groups().result().valid == []


@fast
def test_a_static_member_restarts_without_a_rebalance(brokers: Brokers) -> None:
    with_topic(brokers, 4)
    first, second = Member(brokers, "a"), Member(brokers, "b")
    until(lambda: first.owned | second.owned == {0, 1, 2, 3} and len(first.owned) == len(second.owned), first, second)
    owned, before = second.owned, first.revocations
    second.consumer.close()  # a static member does not leave
    second = Member(brokers, "b")
    until(lambda: second.owned == owned, first, second)
    assert (first.revocations, len(first.owned)) == (before, 2)
    described = brokers.admin.describe_consumer_groups([GROUP])[GROUP].result()
    assert sorted(each.group_instance_id for each in described.members) == ["a", "b"]
    first.consumer.close()
    second.consumer.close()


@fast
def test_transactions_have_no_coordinator(brokers: Brokers) -> None:
    brokers.all_live()
    found = call(brokers, 1, codec.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": ["t"]})
    assert [each.error_code for each in found.coordinators] == [ErrorCode.coordinator_not_available]
