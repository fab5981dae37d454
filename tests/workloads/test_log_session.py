"""The log workload's session with fake clients: the op that follows from each response."""

from __future__ import annotations

import asyncio
import json
import threading
from itertools import takewhile
from types import SimpleNamespace

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from harness.model import Op
from harness.model.session import NoAnswer
from workloads import log_session
from workloads.log_session import LogSession

SEND = Op("invoke", "send", 4, "log-2", 7)
POLL = Op("invoke", "poll", 4)
DRAIN = Op("invoke", "drain", 4, "log-2")
ADDRESSES = {1: "10.77.0.1", 2: "10.77.0.2"}


class FakeClients:
    """A producer and a consumer with scripted responses, and the calls they received."""

    def __init__(self) -> None:
        self.deliveries: list = []
        self.records: list = []
        self.end = 0
        self.producers: list[dict] = []
        self.consumers: list[dict] = []
        self.sent: list[tuple] = []
        self.assigned: list[list] = []
        self.subscribed: list[list] = []
        self.callbacks: dict = {}
        self.owned: list[int] = []
        self.committed: list[list[tuple[int, int]]] = []
        self.responses: list = []
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
            subscribe=self._subscribe,
            assignment=lambda: [TopicPartition("log", partition) for partition in self.owned],
            commit=self._commit,
            committed=self._committed,
            poll=self._poll,
            consume=self._consume,
            get_watermark_offsets=self._watermarks,
            close=self._close,
        )

    def _subscribe(self, topics, **callbacks):
        self.subscribed.append(topics)
        self.callbacks = callbacks

    def _poll(self, _seconds):
        """The next record; an entry that is a name calls the rebalance callback of that name first."""
        while self.records and isinstance(self.records[0], str):
            self.callbacks[self.records.pop(0)](None, [])
        return self.records.pop(0) if self.records else None

    def _commit(self, offsets, asynchronous):
        assert not asynchronous
        self.committed.append([(each.partition, each.offset) for each in offsets])
        return self._respond()

    def _committed(self, partitions, timeout):
        assert timeout > 0
        self.committed.append([each.partition for each in partitions])
        return self._respond()

    def _respond(self):
        response = self.responses.pop(0)
        if isinstance(response, KafkaError):
            raise KafkaException(response)
        return response

    def _consume(self, number, _seconds):
        ready = len([None for _ in takewhile(lambda record: not isinstance(record, str), self.records[:number])])
        records, self.records = self.records[:ready], self.records[ready:]
        return records

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


def error_message(code, offset=-1001):
    return SimpleNamespace(error=lambda: KafkaError(code), offset=lambda: offset)


@pytest.fixture(autouse=True)
def clients(monkeypatch):
    fake = FakeClients()
    monkeypatch.setattr(log_session, "Producer", fake.producer)
    monkeypatch.setattr(log_session, "Consumer", fake.consumer)
    return fake


@pytest.fixture
def invoke():
    """Invokes operations in order in one session, and closes it."""

    def invoke(*ops, assigns_itself=True):
        async def run():
            settings = {"acks": "all"}, {"isolation.level": "read_uncommitted"}
            session = LogSession(ADDRESSES, *settings, assigns_itself)
            try:
                return [await session.invoke(op) for op in ops]
            finally:
                await session.close()

        return asyncio.run(run())

    return invoke


def test_acknowledged_send_has_its_offset(clients, invoke):
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
def test_send_whose_record_may_be_in_the_log_is_info(clients, invoke, code):
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
def test_send_that_was_rejected_before_the_append_fails(clients, invoke, code):
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
def test_send_of_a_fenced_producer_fails_and_the_producer_is_replaced(clients, invoke, code):
    clients.deliveries = [(KafkaError(code), -1), (None, 3)]
    assert [op.type for op in invoke(SEND, SEND)] == ["fail", "ok"]
    assert len(clients.producers) == 2


def test_send_without_a_delivery_report_raises_no_answer(invoke):
    with pytest.raises(NoAnswer, match="sending 7 to log-2: no delivery report"):
        invoke(SEND)


def test_poll_returns_records_by_partition_from_the_beginning(clients, invoke):
    clients.records = [record(0, 5, 11), record(2, 8, 12), record(0, 6, 13)]
    assert invoke(POLL, POLL) == [POLL.ok({"log-0": [[5, 11], [6, 13]], "log-2": [[8, 12]]}), POLL.ok({})]
    ((*partitions,),) = clients.assigned
    assert [(one.topic, one.partition, one.offset) for one in partitions] == [
        ("log", number, OFFSET_BEGINNING) for number in range(4)
    ]


def test_consumer_does_not_reset_its_position_or_commit_by_itself(clients, invoke):
    invoke(POLL)
    assert clients.consumers[0]["auto.offset.reset"] == "error"
    assert clients.consumers[0]["enable.auto.commit"] is False


def test_each_assignment_has_a_consumer_of_its_own(clients, invoke):
    assign = Op("invoke", "assign", 4)
    assert invoke(POLL, assign, POLL) == [POLL.ok({}), assign.ok(), POLL.ok({})]
    assert (len(clients.assigned), len(clients.consumers), clients.closed) == (2, 2, 2)


def test_consumer_that_does_not_close_delays_neither_an_assignment_nor_the_end_of_the_session(
    clients, invoke, monkeypatch
):
    hangs = threading.Event()
    monkeypatch.setattr(log_session, "CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(clients, "_close", hangs.wait)
    assign = Op("invoke", "assign", 4)
    assert invoke(POLL, assign, POLL) == [POLL.ok({}), assign.ok(), POLL.ok({})]
    hangs.set()


def test_member_of_a_group_must_subscribe_before_it_polls(clients, invoke):
    subscribe = Op("invoke", "subscribe", 4)
    clients.records = [record(0, 5, 11)]
    early, subscribed, polled = invoke(POLL, subscribe, POLL, assigns_itself=False)
    assert (early.type, early.error) == ("fail", "this process has not subscribed yet")
    assert (subscribed, polled) == (subscribe.ok(), POLL.ok({"log-0": [[5, 11]]}))
    assert (clients.subscribed, clients.assigned) == ([["log"]], [])


SUBSCRIBE, COMMIT = Op("invoke", "subscribe", 4), Op("invoke", "commit", 4)


def partition_result(partition, offset=0, code=None):
    """A coordinator's result for one partition."""
    return SimpleNamespace(partition=partition, offset=offset, error=None if code is None else KafkaError(code))


def test_member_commits_the_offsets_after_its_polled_records(clients, invoke):
    clients.owned, clients.responses = [0, 2], [[partition_result(0), partition_result(2)]]
    clients.records = [record(0, 6, 12), record(2, 8, 13), record(0, 9, 14)]
    assert invoke(SUBSCRIBE, POLL, COMMIT, assigns_itself=False)[-1] == COMMIT.ok({"log-0": 10, "log-2": 9})
    assert clients.committed == [[(0, 10), (2, 9)]]


def test_records_polled_during_a_rebalance_are_not_committed(clients, invoke):
    clients.owned = [0]
    clients.records = ["on_assign", record(0, 5, 11)]
    *_, polled, ended = invoke(SUBSCRIBE, POLL, COMMIT, assigns_itself=False)
    assert polled == POLL.ok({"log-0": [[5, 11]]})
    assert ended == COMMIT.fail("this process has polled nothing since its last assignment")


@pytest.mark.parametrize("rebalance", ["on_assign", "on_revoke", "on_lost"])
def test_records_polled_before_a_rebalance_are_not_committed(clients, invoke, rebalance):
    clients.owned = [0]
    clients.records = [record(0, 5, 11), rebalance]
    *_, polled, _, ended = invoke(SUBSCRIBE, POLL, POLL, COMMIT, assigns_itself=False)
    assert (polled.type, ended.type, clients.committed) == ("ok", "fail", [])


def test_member_commits_only_partitions_that_it_still_owns(clients, invoke):
    clients.owned, clients.responses = [2], [[partition_result(2)]]
    clients.records = [record(0, 5, 11), record(2, 8, 12)]
    assert invoke(SUBSCRIBE, POLL, COMMIT, assigns_itself=False)[-1] == COMMIT.ok({"log-2": 9})


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (KafkaError(KafkaError.ILLEGAL_GENERATION), "fail"),
        (KafkaError(KafkaError.UNKNOWN_MEMBER_ID), "fail"),
        (KafkaError(KafkaError.REBALANCE_IN_PROGRESS), "fail"),
        (KafkaError(KafkaError.FENCED_INSTANCE_ID), "fail"),
        (KafkaError(KafkaError.REQUEST_TIMED_OUT), "info"),
        (KafkaError(KafkaError.NOT_COORDINATOR), "info"),
        (KafkaError(KafkaError._WAIT_COORD), "info"),
        ([partition_result(0, code=KafkaError.ILLEGAL_GENERATION)], "fail"),
        ([partition_result(0), partition_result(2, code=KafkaError.ILLEGAL_GENERATION)], "info"),
    ],
    ids=str,
)
def test_commit_is_info_unless_all_partitions_rejected_it(clients, invoke, response, kind):
    clients.owned, clients.responses = [0], [response]
    clients.records = [record(0, 5, 11)]
    ended = invoke(SUBSCRIBE, POLL, COMMIT, assigns_itself=False)[-1]
    assert (ended.type, ended.value) == (kind, {"log-0": 6})
    assert ended.error is not None


def test_committed_returns_offsets_of_all_partitions_or_of_one(clients, invoke):
    of_all, of_one = Op("invoke", "committed", 4), Op("invoke", "committed", 4, "log-1")
    clients.responses = [
        [partition_result(0, 7), partition_result(1, -1001)],
        [partition_result(1, 4)],
        [partition_result(1, code=KafkaError.NOT_COORDINATOR)],
        KafkaError(KafkaError._TIMED_OUT),
    ]
    ends = invoke(of_all, of_one, of_one, of_one)
    assert ends[:2] == [of_all.ok({"log-0": 7, "log-1": None}), of_one.ok({"log-1": 4})]
    assert [(op.type, op.error) for op in ends[2:]] == [("fail", "NOT_COORDINATOR"), ("fail", "_TIMED_OUT")]
    assert clients.committed == [[0, 1, 2, 3], [1], [1], [1]]


def test_failed_poll_is_info_with_the_records_before_the_error(clients, invoke):
    clients.records = [record(0, 5, 11), error_message(KafkaError._AUTO_OFFSET_RESET)]
    (ended,) = invoke(POLL)
    assert (ended.type, ended.value) == ("info", {"log-0": [[5, 11]]})
    assert ended.error.startswith("_AUTO_OFFSET_RESET: ")


def test_drain_reads_to_the_end_offset_that_it_requested_first(clients, invoke):
    clients.end = 2
    early_end, end = error_message(KafkaError._PARTITION_EOF, 1), error_message(KafkaError._PARTITION_EOF, 2)
    clients.records = [record(2, 0, 11), early_end, record(2, 1, 12), end]
    assert invoke(DRAIN) == [DRAIN.ok([[0, 11], [1, 12]])]
    assert clients.closed == 1


def test_drain_without_further_records_raises_no_answer(clients, invoke):
    clients.end = 2
    clients.records = [record(2, 0, 11)]
    with pytest.raises(NoAnswer, match="up to offset 2: no record arrived after the first 1"):
        invoke(DRAIN)
    assert clients.closed == 1


def test_close_closes_the_consumer(clients, invoke):
    invoke(POLL)
    assert clients.closed == 1
