"""The log's session against clients that answer as they are told: what each answer becomes in the history."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError

from harness.model import Op
from harness.model.session import NoAnswer
from workloads import log_session
from workloads.log_session import LogSession

SEND = Op("invoke", "send", 4, "log-2", 7)
POLL = Op("invoke", "poll", 4)
DRAIN = Op("invoke", "drain", 4, "log-2")
ADDRESSES = {1: "10.77.0.1", 2: "10.77.0.2"}


class FakeClients:
    """What both clients are told to answer, and what was done with them."""

    def __init__(self) -> None:
        self.deliveries: list = []
        self.records: list = []
        self.end = 0
        self.producers: list[dict] = []
        self.consumers: list[dict] = []
        self.sent: list[tuple] = []
        self.assigned: list[list] = []
        self.subscribed: list[list] = []
        self.closed = 0

    def producer(self, settings):
        self.producers.append(settings)
        return SimpleNamespace(produce=self._produce, flush=self._flush)

    def _produce(self, topic, value, partition, on_delivery):
        self.sent.append((topic, value, partition))
        self._on_delivery = on_delivery

    def _flush(self, seconds):
        assert seconds > 0
        if self.deliveries:
            error, offset = self.deliveries.pop(0)
            self._on_delivery(error, SimpleNamespace(offset=lambda: offset))

    def consumer(self, settings):
        self.consumers.append(settings)
        return SimpleNamespace(
            assign=self.assigned.append,
            subscribe=self.subscribed.append,
            poll=lambda _seconds: self.records.pop(0) if self.records else None,
            consume=self._consume,
            get_watermark_offsets=self._watermarks,
            close=self._close,
        )

    def _consume(self, number, _seconds):
        got, self.records = self.records[:number], self.records[number:]
        return got

    def _watermarks(self, _partition, timeout, cached):
        assert timeout > 0
        assert not cached
        return 0, self.end

    def _close(self):
        self.closed += 1


def record(partition, offset, value):
    return SimpleNamespace(
        error=lambda: None, partition=lambda: partition, offset=lambda: offset, value=lambda: json.dumps(value).encode()
    )


def failed(code, offset=-1001):
    return SimpleNamespace(error=lambda: KafkaError(code), offset=lambda: offset)


@pytest.fixture(autouse=True)
def clients(monkeypatch):
    fake = FakeClients()
    monkeypatch.setattr(log_session, "Producer", fake.producer)
    monkeypatch.setattr(log_session, "Consumer", fake.consumer)
    return fake


@pytest.fixture
def invoke():
    """Invokes operations one after another in one session, and closes it."""

    def invoke(*ops, assigns_itself=True):
        async def one_by_one():
            settings = {"acks": "all"}, {"isolation.level": "read_uncommitted"}
            session = LogSession(ADDRESSES, *settings, assigns_itself)
            try:
                return [await session.invoke(op) for op in ops]
            finally:
                await session.close()

        return asyncio.run(one_by_one())

    return invoke


def test_an_acknowledged_send_tells_its_offset(clients, invoke):
    clients.deliveries = [(None, 41)]
    assert invoke(SEND) == [SEND.ok({"offset": 41, "value": 7})]
    assert clients.sent == [("log", "7", 2)]
    assert clients.producers[0]["bootstrap.servers"] == "10.77.0.1:9092,10.77.0.2:9092"


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.UNKNOWN,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ],
)
def test_a_send_whose_record_may_be_in_the_log_is_info(clients, invoke, code):
    clients.deliveries = [(KafkaError(code), -1)]
    assert invoke(SEND) == [SEND.info(KafkaError(code).name())]


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_CONTROLLER,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.INVALID_PRODUCER_EPOCH,
    ],
)
def test_a_send_that_was_refused_before_anything_was_appended_is_a_failure(clients, invoke, code):
    clients.deliveries = [(KafkaError(code), -1), (None, 3)]
    assert invoke(SEND, SEND) == [SEND.fail(KafkaError(code).name()), SEND.ok({"offset": 3, "value": 7})]
    assert len(clients.producers) == 1


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_a_producer_that_is_shut_out_has_failed_and_is_replaced(clients, invoke, code):
    clients.deliveries = [(KafkaError(code), -1), (None, 3)]
    assert [op.type for op in invoke(SEND, SEND)] == ["fail", "ok"]
    assert len(clients.producers) == 2


def test_a_send_of_which_nothing_is_heard_is_left_to_the_engine_which_makes_it_info(invoke):
    with pytest.raises(NoAnswer, match="sending 7 to log-2: nothing known"):
        invoke(SEND)


def test_a_poll_returns_what_came_by_partition_and_begins_at_the_beginning(clients, invoke):
    clients.records = [record(0, 5, 11), record(2, 8, 12), record(0, 6, 13)]
    assert invoke(POLL, POLL) == [POLL.ok({"log-0": [[5, 11], [6, 13]], "log-2": [[8, 12]]}), POLL.ok({})]
    ((*partitions,),) = clients.assigned
    assert [(one.topic, one.partition, one.offset) for one in partitions] == [
        ("log", number, OFFSET_BEGINNING) for number in range(4)
    ]


def test_a_consumer_never_starts_elsewhere_by_itself_nor_commits(clients, invoke):
    invoke(POLL)
    assert clients.consumers[0]["auto.offset.reset"] == "error"
    assert clients.consumers[0]["enable.auto.commit"] is False


def test_an_assignment_begins_anew(clients, invoke):
    assign = Op("invoke", "assign", 4)
    assert invoke(POLL, assign, POLL) == [POLL.ok({}), assign.ok(), POLL.ok({})]
    assert (len(clients.assigned), len(clients.consumers)) == (2, 1)


def test_a_process_that_its_group_assigns_polls_once_it_has_subscribed(clients, invoke):
    subscribe = Op("invoke", "subscribe", 4)
    clients.records = [record(0, 5, 11)]
    early, subscribed, polled = invoke(POLL, subscribe, POLL, assigns_itself=False)
    assert (early.type, early.error) == ("fail", "this process has not subscribed yet")
    assert (subscribed, polled) == (subscribe.ok(), POLL.ok({"log-0": [[5, 11]]}))
    assert (clients.subscribed, clients.assigned) == ([["log"]], [])


def test_a_poll_that_fails_ends_its_process_and_keeps_what_had_come(clients, invoke):
    clients.records = [record(0, 5, 11), failed(KafkaError._AUTO_OFFSET_RESET)]
    (ended,) = invoke(POLL)
    assert (ended.type, ended.value) == ("info", {"log-0": [[5, 11]]})
    assert ended.error.startswith("_AUTO_OFFSET_RESET: ")


def test_a_drain_reads_on_to_the_end_that_the_leader_named_first(clients, invoke):
    clients.end = 2
    early_end, end = failed(KafkaError._PARTITION_EOF, 1), failed(KafkaError._PARTITION_EOF, 2)
    clients.records = [record(2, 0, 11), early_end, record(2, 1, 12), end]
    assert invoke(DRAIN) == [DRAIN.ok([[0, 11], [1, 12]])]
    assert clients.closed == 1


def test_a_drain_to_which_nothing_more_comes_is_left_to_the_engine(clients, invoke):
    clients.end = 2
    clients.records = [record(2, 0, 11)]
    with pytest.raises(NoAnswer, match="up to offset 2: nothing came after 1 records"):
        invoke(DRAIN)
    assert clients.closed == 1


def test_closing_closes_the_consumer(clients, invoke):
    invoke(POLL)
    assert clients.closed == 1
