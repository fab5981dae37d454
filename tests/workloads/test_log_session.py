"""The log's session against clients that answer as they are told: what each answer becomes in the history."""

from __future__ import annotations

import asyncio
import json
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
        self.rebalanced: dict = {}
        self.owned: list[int] = []
        self.committed: list[list[tuple[int, int]]] = []
        self.answers: list = []
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

    def _subscribe(self, topics, **told):
        self.subscribed.append(topics)
        self.rebalanced = told

    def _poll(self, _seconds):
        """The next record; one that is a name is the rebalance of that name, and comes before the record."""
        while self.records and isinstance(self.records[0], str):
            self.rebalanced[self.records.pop(0)](None, [])
        return self.records.pop(0) if self.records else None

    def _commit(self, offsets, asynchronous):
        assert not asynchronous
        self.committed.append([(each.partition, each.offset) for each in offsets])
        return self._answered()

    def _committed(self, partitions, timeout):
        assert timeout > 0
        self.committed.append([each.partition for each in partitions])
        return self._answered()

    def _answered(self):
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaError):
            raise KafkaException(answer)
        return answer

    def _consume(self, number, _seconds):
        ready = len([None for _ in takewhile(lambda record: not isinstance(record, str), self.records[:number])])
        got, self.records = self.records[:ready], self.records[ready:]
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


SUBSCRIBE, COMMIT = Op("invoke", "subscribe", 4), Op("invoke", "commit", 4)


def answer(partition, offset=0, code=None):
    """What a coordinator says of one partition."""
    return SimpleNamespace(partition=partition, offset=offset, error=None if code is None else KafkaError(code))


def test_a_member_commits_where_the_records_end_that_it_polled(clients, invoke):
    clients.owned, clients.answers = [0, 2], [[answer(0), answer(2)]]
    clients.records = [record(0, 6, 12), record(2, 8, 13), record(0, 9, 14)]
    assert invoke(SUBSCRIBE, POLL, COMMIT, assigns_itself=False)[-1] == COMMIT.ok({"log-0": 10, "log-2": 9})
    assert clients.committed == [[(0, 10), (2, 9)]]


def test_a_poll_in_whose_midst_the_group_formed_anew_is_not_committed(clients, invoke):
    clients.owned = [0]
    clients.records = ["on_assign", record(0, 5, 11)]
    *_, polled, ended = invoke(SUBSCRIBE, POLL, COMMIT, assigns_itself=False)
    assert polled == POLL.ok({"log-0": [[5, 11]]})
    assert ended == COMMIT.fail("this process has polled nothing since it got its partitions")


@pytest.mark.parametrize("rebalance", ["on_assign", "on_revoke", "on_lost"])
def test_a_member_forgets_what_it_polled_before_its_group_formed_anew(clients, invoke, rebalance):
    clients.owned = [0]
    clients.records = [record(0, 5, 11), rebalance]
    *_, polled, _, ended = invoke(SUBSCRIBE, POLL, POLL, COMMIT, assigns_itself=False)
    assert (polled.type, ended.type, clients.committed) == ("ok", "fail", [])


def test_a_member_commits_only_what_is_still_its_own(clients, invoke):
    clients.owned, clients.answers = [2], [[answer(2)]]
    clients.records = [record(0, 5, 11), record(2, 8, 12)]
    assert invoke(SUBSCRIBE, POLL, COMMIT, assigns_itself=False)[-1] == COMMIT.ok({"log-2": 9})


@pytest.mark.parametrize(
    ("answered", "kind"),
    [
        (KafkaError(KafkaError.ILLEGAL_GENERATION), "fail"),
        (KafkaError(KafkaError.UNKNOWN_MEMBER_ID), "fail"),
        (KafkaError(KafkaError.REBALANCE_IN_PROGRESS), "fail"),
        (KafkaError(KafkaError.FENCED_INSTANCE_ID), "fail"),
        (KafkaError(KafkaError.REQUEST_TIMED_OUT), "info"),
        (KafkaError(KafkaError.NOT_COORDINATOR), "info"),
        (KafkaError(KafkaError._WAIT_COORD), "info"),
        ([answer(0, code=KafkaError.ILLEGAL_GENERATION)], "fail"),
        ([answer(0), answer(2, code=KafkaError.ILLEGAL_GENERATION)], "info"),
    ],
    ids=str,
)
def test_a_commit_that_may_have_been_taken_is_info(clients, invoke, answered, kind):
    clients.owned, clients.answers = [0], [answered]
    clients.records = [record(0, 5, 11)]
    ended = invoke(SUBSCRIBE, POLL, COMMIT, assigns_itself=False)[-1]
    assert (ended.type, ended.value) == (kind, {"log-0": 6})
    assert ended.error is not None


def test_what_a_group_has_committed_is_told_of_all_partitions_or_of_one(clients, invoke):
    of_all, of_one = Op("invoke", "committed", 4), Op("invoke", "committed", 4, "log-1")
    clients.answers = [
        [answer(0, 7), answer(1, -1001)], [answer(1, 4)], [answer(1, code=KafkaError.NOT_COORDINATOR)],
        KafkaError(KafkaError._TIMED_OUT),
    ]  # fmt: skip
    told = invoke(of_all, of_one, of_one, of_one)
    assert told[:2] == [of_all.ok({"log-0": 7, "log-1": None}), of_one.ok({"log-1": 4})]
    assert [(op.type, op.error) for op in told[2:]] == [("fail", "NOT_COORDINATOR"), ("fail", "_TIMED_OUT")]
    assert clients.committed == [[0, 1, 2, 3], [1], [1], [1]]


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
