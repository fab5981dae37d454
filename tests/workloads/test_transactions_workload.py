"""The transactions workload with fake clients: its operations, and how transactions end."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.model import BadInput, Op, PeerFailure
from harness.model.session import NoAnswer, NotSent
from workloads.log_topic import PARTITIONS
from workloads.transactions import (
    KAFKA_17754,
    KAFKA_20734,
    LATE_END,
    MICRO_OPS_MAX,
    TRANSACTIONS,
    transaction,
    transactions,
    with_zombies,
)
from workloads.transactions_bumping import BumpingProducer
from workloads.transactions_session import Fenced, Refused, TransactionSession
from workloads.workload import WorkloadKind


@dataclass
class FakeProducer:
    """Raises send_error and end_error; its records get offsets from 40 on."""

    send_error: PeerFailure | None = None
    end_error: PeerFailure | None = None
    ends: list[bool] = field(default_factory=list)
    sent: int = 0
    closed: bool = False

    async def send(self, _key: str, _value: int) -> int:
        if self.send_error is not None:
            raise self.send_error
        self.sent += 1
        return 39 + self.sent

    async def end(self, commit: bool) -> None:
        self.ends.append(commit)
        if self.end_error is not None:
            raise self.end_error

    async def close(self) -> None:
        self.closed = True


@dataclass
class FakeReader:
    """Returns these records, one entry per poll, then none."""

    polls: list[dict[str, list]] = field(default_factory=list)
    invoked: list[Op] = field(default_factory=list)

    async def invoke(self, op: Op) -> Op:
        self.invoked.append(op)
        return op.ok(self.polls.pop(0) if self.polls else {})

    async def close(self) -> None:
        pass


def run(producer: FakeProducer, reader: FakeReader, *micro_ops: list, patience_seconds: float = 0) -> Op:
    async def stable(_key: str) -> None:
        pass

    session = TransactionSession(producer, reader, stable, patience_seconds)  # type: ignore[arg-type]
    return asyncio.run(session.invoke(Op("invoke", "txn", value=list(micro_ops))))


SEND, POLL, ABORT = ["send", "log-0", 7], ["poll", {}], ["abort"]


def test_committed_transaction_has_offsets_and_records() -> None:
    ended = run(FakeProducer(), FakeReader([{"log-1": [[3, 5]]}]), SEND, POLL)
    assert (ended.type, ended.value) == ("ok", [["send", "log-0", [40, 7]], ["poll", {"log-1": [[3, 5]]}]])


def test_transaction_whose_abort_is_confirmed_fails() -> None:
    producer = FakeProducer()
    ended = run(producer, FakeReader(), SEND, ABORT)
    assert (ended.type, ended.error, producer.ends) == ("fail", "aborted", [False])
    assert ended.value == [["send", "log-0", [40, 7]], ABORT]


ENDS: dict[str, tuple[FakeProducer, str, list[bool]]] = {
    "rejected send, abort confirmed": (FakeProducer(send_error=Refused("full")), "fail", [False]),
    "send without a response": (FakeProducer(send_error=NoAnswer("late")), "info", []),
    "failed commit": (FakeProducer(end_error=PeerFailure("INVALID_TXN_STATE")), "info", [True]),
    "rejected send, failed abort": (
        FakeProducer(send_error=Refused("full"), end_error=PeerFailure("late")),
        "info",
        [False],
    ),
    "fenced at the send and at the abort": (
        FakeProducer(send_error=Refused("fenced"), end_error=Refused("fenced")),
        "fail",
        [False],
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_end_of_a_transaction_by_its_errors(name: str) -> None:
    producer, kind, ends = ENDS[name]
    ended = run(producer, FakeReader(), SEND)
    assert (ended.type, producer.ends) == (kind, ends)
    assert ended.value == [SEND if producer.send_error else ["send", "log-0", [40, 7]]]


FENCE = ["fence"]


@dataclass
class Fencing:
    """Starts a newer producer; the older one gets fencing errors from then on, unless is_ineffective."""

    is_ineffective: bool = False
    failure: PeerFailure | None = None
    newer: FakeProducer = field(default_factory=FakeProducer)

    def run(self, older: FakeProducer, *ops: Op) -> list[Op]:
        async def start_newer() -> FakeProducer:
            if self.failure is not None:
                raise self.failure
            if not self.is_ineffective:
                older.send_error, older.end_error = Refused("send_error: _FENCED"), Fenced("_FENCED")
            return self.newer

        async def stable(_key: str) -> None:
            pass

        async def run_all() -> list[Op]:
            session = TransactionSession(older, FakeReader(), stable, 0, start_newer)  # type: ignore[arg-type]
            return [await session.invoke(op) for op in ops]

        return asyncio.run(run_all())


def txn(*micro_ops: list) -> Op:
    return Op("invoke", "txn", value=list(micro_ops))


@pytest.mark.parametrize(
    ("rest", "error"),
    [([SEND], "send_error: _FENCED"), ([], "_FENCED"), ([ABORT], "_FENCED")],
    ids=["at its next send", "at its commit", "at its abort"],
)
def test_transaction_of_a_fenced_producer_fails_and_the_newer_producer_is_used(rest: list, error: str) -> None:
    older, fencing = FakeProducer(), Fencing()
    fenced, after = fencing.run(older, txn(SEND, FENCE, *rest), txn(SEND))
    assert (fenced.type, fenced.error) == ("fail", error)
    assert fenced.value == [["send", "log-0", [40, 7]], FENCE, *rest]
    assert (after.type, older.closed, older.sent, fencing.newer.sent) == ("ok", True, 1, 1)


def test_transaction_that_commits_despite_the_fence_is_ok() -> None:
    (ended,) = Fencing(is_ineffective=True).run(FakeProducer(), txn(SEND, FENCE, SEND))
    assert (ended.type, ended.value[1]) == ("ok", FENCE)


def test_transaction_is_info_if_the_newer_producer_fails_to_start() -> None:
    older = FakeProducer()
    (ended,) = Fencing(failure=PeerFailure("late")).run(older, txn(SEND, FENCE))
    assert (ended.type, ended.error, older.closed) == ("info", "late", False)


def test_commit_that_was_requested_before_the_fencing_is_info() -> None:
    assert run(FakeProducer(end_error=Fenced("_FENCED")), FakeReader(), SEND).type == "info"


def test_some_transactions_are_fenced_after_their_first_send_and_otherwise_equal() -> None:
    arguments = [(number, random.Random(number).getrandbits(64)) for number in range(2000)]
    values = [with_zombies(*each).value for each in arguments]
    fenced = [micro_ops for micro_ops in values if FENCE in micro_ops]
    assert 100 < len(fenced) < 250
    assert {micro_ops.index(FENCE) for micro_ops in fenced} == {1}
    assert [[micro_op for micro_op in micro_ops if micro_op != FENCE] for micro_ops in values] == [
        transaction(*each).value for each in arguments
    ]


@pytest.mark.parametrize(("zombies", "has_fences"), [("true", True), ("false", False)])
def test_zombies_are_an_option(zombies: str, has_fences: bool) -> None:
    operation = transactions({"zombies": zombies}).operation
    assert operation is not None
    assert any(FENCE in operation(number, number << 32).value for number in range(100)) == has_fences


def test_poll_waits_for_the_transactions_own_record() -> None:
    reader = FakeReader([{"log-0": [[1, 2]]}, {}, {"log-0": [[40, 7]]}, {"log-0": [[41, 8]]}])
    ended = run(FakeProducer(), reader, SEND, POLL, patience_seconds=60)
    assert ended.value[1] == ["poll", {"log-0": [[1, 2], [40, 7]]}]


def test_drain_waits_until_no_open_transaction_blocks_records() -> None:
    async def drain() -> list[str]:
        order: list[str] = []

        async def stable(key: str) -> None:
            order.append(f"stable {key}")

        reader = FakeReader()
        session = TransactionSession(FakeProducer(), reader, stable, 0)  # type: ignore[arg-type]
        await session.invoke(Op("invoke", "drain", key="log-2"))
        return [*order, *(op.f for op in reader.invoked)]

    assert asyncio.run(drain()) == ["stable log-2", "drain"]


def test_transactions_send_unique_values_to_all_partitions() -> None:
    transactions_ = [transaction(number, 7919 * number).value for number in range(2000)]
    sends = [micro_op for micro_ops in transactions_ for micro_op in micro_ops if micro_op[0] == "send"]
    assert len(sends) == len({value for _, _, value in sends}) > 2000
    assert {key for _, key, _ in sends} == {f"log-{partition}" for partition in range(PARTITIONS)}
    sizes = {len([micro_op for micro_op in micro_ops if micro_op != ABORT]) for micro_ops in transactions_}
    assert sizes == set(range(1, MICRO_OPS_MAX + 1))
    assert 0 < sum(micro_ops[-1] == ABORT for micro_ops in transactions_) < 1000


@pytest.mark.parametrize(
    ("kind", "options", "problem"),
    [
        (TRANSACTIONS, {"acks": "1"}, "workload transactions: option acks: expected one of zombies"),
        (TRANSACTIONS, {"zombies": "1"}, "option zombies: expected true or false, found '1'"),
        (KAFKA_17754, {"client": "java"}, "option client: expected librdkafka or epoch-bumping, found 'java'"),
        (KAFKA_20734, {"client": "java"}, "workload kafka-20734: option client: expected no options"),
    ],
    ids=["acks", "zombies", "client", "no options"],
)
def test_unknown_option_is_bad_input(kind: WorkloadKind, options: dict[str, str], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        kind.completed(options)


def test_second_transaction_of_late_end_polls_while_it_is_open() -> None:
    assert [micro_op[0] for op in LATE_END for micro_op in op.value] == ["send", "send", "poll", "send", "abort"]


@dataclass
class Broker:
    """One node that is leader and coordinator, and does not respond to the first EndTxn."""

    requests: list[Any] = field(default_factory=list)

    async def call(self, request: Any, timeout_ms: int) -> Any:  # noqa: ARG002 - the signature of Connection
        self.requests.append(request)
        name = type(request).__name__
        if name == "EndTxnRequest" and len(self.requests_of("EndTxnRequest")) == 1:
            raise NoAnswer("timed out")
        return response_to(name, epoch=4 if name == "EndTxnRequest" else 3)

    def requests_of(self, name: str) -> list[Any]:
        return [request for request in self.requests if type(request).__name__ == name]

    async def close(self) -> None:
        pass


def response_to(name: str, epoch: int) -> Any:
    class Response:
        def __init__(self, **fields: Any) -> None:
            self.__dict__.update(error_code=ErrorCode.none, **fields)

    partitions = [Response(partition_index=number, leader_id=1) for number in range(PARTITIONS)]
    produced = Response(partition_responses=[Response(base_offset=40)])
    return {
        "MetadataRequest": Response(topics=[Response(partitions=partitions)]),
        "FindCoordinatorRequest": Response(coordinators=[Response(node_id=1)]),
        "InitProducerIdRequest": Response(producer_id=9, producer_epoch=epoch),
        "EndTxnRequest": Response(producer_id=9, producer_epoch=epoch),
        "ProduceRequest": Response(responses=[produced]),
    }[name]


def test_bumping_producer_resends_its_end_with_the_same_epoch_and_continues_with_the_next() -> None:
    async def two_transactions(broker: Broker) -> None:
        producer = BumpingProducer(lambda _node: broker, 1, "t")  # type: ignore[arg-type, return-value]
        for value in (1, 2):
            assert await producer.send("log-0", value) == 40
            await producer.end(commit=True)

    broker = Broker()
    asyncio.run(two_transactions(broker))
    assert [request.producer_epoch for request in broker.requests_of("EndTxnRequest")] == [3, 3, 4]
    # Sequences start at 0 in each epoch. In a batch, the epoch is at byte 51 and the sequence at byte 53.
    batches = [request.topic_data[0].partition_data[0].records for request in broker.requests_of("ProduceRequest")]
    assert [(int.from_bytes(batch[51:53]), int.from_bytes(batch[53:57])) for batch in batches] == [(3, 0), (4, 0)]


def test_bumping_producer_retries_until_the_last_transactions_markers_are_written() -> None:
    class BusyBroker(Broker):
        """Still writes markers at the first request of each API; the first EndTxn gets no response at all."""

        async def call(self, request: Any, timeout_ms: int) -> Any:
            response = await super().call(request, timeout_ms)
            name = type(request).__name__
            rejected = {"InitProducerIdRequest": 1, "ProduceRequest": 1, "EndTxnRequest": 2}
            if len(self.requests_of(name)) == rejected.get(name):
                result = response.responses[0].partition_responses[0] if name == "ProduceRequest" else response
                result.error_code = ErrorCode.concurrent_transactions
            return response

    async def one_transaction(broker: Broker) -> None:
        producer = BumpingProducer(lambda _node: broker, 1, "t")  # type: ignore[arg-type, return-value]
        assert await producer.send("log-0", 1) == 40
        await producer.end(commit=True)

    broker = BusyBroker()
    asyncio.run(one_transaction(broker))
    assert len(broker.requests_of("InitProducerIdRequest")) == 2
    # The same record is sent again, and EndTxn with the same epoch.
    first, again = broker.requests_of("ProduceRequest")
    assert first == again
    assert [request.producer_epoch for request in broker.requests_of("EndTxnRequest")] == [3, 3, 3]


def test_bumping_producer_raises_not_sent_if_no_broker_is_reachable() -> None:
    class UnreachableBroker(Broker):
        async def call(self, request: Any, timeout_ms: int) -> Any:  # noqa: ARG002
            raise NotSent("connecting")

    producer = BumpingProducer(lambda _node: UnreachableBroker(), 1, "t")  # type: ignore[arg-type, return-value]
    with pytest.raises(NotSent):
        asyncio.run(producer.send("log-0", 1))
