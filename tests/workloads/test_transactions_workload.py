"""What transactions ask for, and what is said of their ends: with clients that do as they are told."""

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
from workloads.transactions import LATE_END, MICRO_OPS_MAX, late_end, transaction, transactions, with_zombies
from workloads.transactions_bumping import BumpingProducer
from workloads.transactions_session import Fenced, Refused, TransactionSession


@dataclass
class Producer:
    """Raises what it is told to; its records stand at offsets from 40 on."""

    sending: PeerFailure | None = None
    ending: PeerFailure | None = None
    ends: list[bool] = field(default_factory=list)
    sent: int = 0
    closed: bool = False

    async def send(self, _key: str, _value: int) -> int:
        if self.sending is not None:
            raise self.sending
        self.sent += 1
        return 39 + self.sent

    async def end(self, commit: bool) -> None:
        self.ends.append(commit)
        if self.ending is not None:
            raise self.ending

    async def close(self) -> None:
        self.closed = True


@dataclass
class Reader:
    """Answers each poll with the next of these, and nothing after them."""

    polls: list[dict[str, list]] = field(default_factory=list)
    asked: list[Op] = field(default_factory=list)

    async def invoke(self, op: Op) -> Op:
        self.asked.append(op)
        return op.ok(self.polls.pop(0) if self.polls else {})

    async def close(self) -> None:
        pass


def carry_out(producer: Producer, reader: Reader, *micro_ops: list, patience_seconds: float = 0) -> Op:
    async def stable(_key: str) -> None:
        pass

    session = TransactionSession(producer, reader, stable, patience_seconds)  # type: ignore[arg-type]
    return asyncio.run(session.invoke(Op("invoke", "txn", value=list(micro_ops))))


SEND, POLL, ABORT = ["send", "log-0", 7], ["poll", {}], ["abort"]


def test_a_committed_transaction_tells_offsets_and_records() -> None:
    ended = carry_out(Producer(), Reader([{"log-1": [[3, 5]]}]), SEND, POLL)
    assert (ended.type, ended.value) == ("ok", [["send", "log-0", [40, 7]], ["poll", {"log-1": [[3, 5]]}]])


def test_an_aborted_transaction_failed_once_its_abort_is_confirmed() -> None:
    producer = Producer()
    ended = carry_out(producer, Reader(), SEND, ABORT)
    assert (ended.type, ended.error, producer.ends) == ("fail", "aborted", [False])
    assert ended.value == [["send", "log-0", [40, 7]], ABORT]


ENDS: dict[str, tuple[Producer, str, list[bool]]] = {
    "a send that is refused is aborted, and nothing is left": (Producer(sending=Refused("full")), "fail", [False]),
    "a send without an answer leaves all open": (Producer(sending=NoAnswer("late")), "info", []),
    "an end that fails leaves all open": (Producer(ending=PeerFailure("INVALID_TXN_STATE")), "info", [True]),
    "nor is it known where aborting fails too": (
        Producer(sending=Refused("full"), ending=PeerFailure("late")), "info", [False],
    ),
    "who was shut out wrote nothing": (Producer(sending=Refused("fenced"), ending=Refused("fenced")), "fail", [False]),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_end_says_what_is_known(name: str) -> None:
    producer, kind, ends = ENDS[name]
    ended = carry_out(producer, Reader(), SEND)
    assert (ended.type, producer.ends) == (kind, ends)
    assert ended.value == [SEND if producer.sending else ["send", "log-0", [40, 7]]]


FENCE = ["fence"]


@dataclass
class Succession:
    """Has a producer fenced; from then on it is refused all, unless it is told to go on."""

    goes_on: bool = False
    failure: PeerFailure | None = None
    newer: Producer = field(default_factory=Producer)

    def carry_out(self, older: Producer, *ops: Op) -> list[Op]:
        async def succeed() -> Producer:
            if self.failure is not None:
                raise self.failure
            if not self.goes_on:
                older.sending, older.ending = Refused("sending: _FENCED"), Fenced("_FENCED")
            return self.newer

        async def stable(_key: str) -> None:
            pass

        async def one_by_one() -> list[Op]:
            session = TransactionSession(older, Reader(), stable, 0, succeed)  # type: ignore[arg-type]
            return [await session.invoke(op) for op in ops]

        return asyncio.run(one_by_one())


def asked(*micro_ops: list) -> Op:
    return Op("invoke", "txn", value=list(micro_ops))


@pytest.mark.parametrize(
    ("rest", "error"),
    [([SEND], "sending: _FENCED"), ([], "_FENCED"), ([ABORT], "_FENCED")],
    ids=["by its next send", "by its commit", "by its abort"],
)
def test_a_fenced_producer_has_failed_and_the_newer_one_goes_on(rest: list, error: str) -> None:
    older, succession = Producer(), Succession()
    fenced, after = succession.carry_out(older, asked(SEND, FENCE, *rest), asked(SEND))
    assert (fenced.type, fenced.error) == ("fail", error)
    assert fenced.value == [["send", "log-0", [40, 7]], FENCE, *rest]
    assert (after.type, older.closed, older.sent, succession.newer.sent) == ("ok", True, 1, 1)


def test_a_fenced_producer_that_is_let_go_on_is_told_as_it_ended() -> None:
    (ended,) = Succession(goes_on=True).carry_out(Producer(), asked(SEND, FENCE, SEND))
    assert (ended.type, ended.value[1]) == ("ok", FENCE)


def test_whether_a_producer_was_fenced_is_open_where_the_newer_one_was_not_answered() -> None:
    older = Producer()
    (ended,) = Succession(failure=PeerFailure("late")).carry_out(older, asked(SEND, FENCE))
    assert (ended.type, ended.error, older.closed) == ("info", "late", False)


def test_a_commit_that_was_asked_for_before_the_producer_was_fenced_may_have_taken_effect() -> None:
    assert carry_out(Producer(ending=Fenced("_FENCED")), Reader(), SEND).type == "info"


def test_some_transactions_are_fenced_behind_their_first_send_and_ask_for_the_same() -> None:
    draws = [(number, random.Random(number).getrandbits(64)) for number in range(2000)]
    drawn = [with_zombies(*each).value for each in draws]
    fenced = [micro_ops for micro_ops in drawn if FENCE in micro_ops]
    assert 100 < len(fenced) < 250
    assert {micro_ops.index(FENCE) for micro_ops in fenced} == {1}
    assert [[micro_op for micro_op in micro_ops if micro_op != FENCE] for micro_ops in drawn] == [
        transaction(*each).value for each in draws
    ]


@pytest.mark.parametrize(("zombies", "are_there"), [("true", True), ("false", False)])
def test_zombies_are_an_option(zombies: str, are_there: bool) -> None:
    operation = transactions({"zombies": zombies}).operation
    assert operation is not None
    assert any(FENCE in operation(number, number << 32).value for number in range(100)) == are_there


def test_poll_waits_for_the_transaction_s_own_record_to_show() -> None:
    reader = Reader([{"log-0": [[1, 2]]}, {}, {"log-0": [[40, 7]]}, {"log-0": [[41, 8]]}])
    ended = carry_out(Producer(), reader, SEND, POLL, patience_seconds=60)
    assert ended.value[1] == ["poll", {"log-0": [[1, 2], [40, 7]]}]


def test_drain_waits_until_no_open_transaction_keeps_records_back() -> None:
    async def drained() -> list[str]:
        order: list[str] = []

        async def stable(key: str) -> None:
            order.append(f"stable {key}")

        reader = Reader()
        session = TransactionSession(Producer(), reader, stable, 0)  # type: ignore[arg-type]
        await session.invoke(Op("invoke", "drain", key="log-2"))
        return [*order, *(op.f for op in reader.asked)]

    assert asyncio.run(drained()) == ["stable log-2", "drain"]


def test_values_of_transactions_are_never_sent_twice() -> None:
    drawn = [transaction(number, 7919 * number).value for number in range(2000)]
    values = [micro_op[2] for micro_ops in drawn for micro_op in micro_ops if micro_op[0] == "send"]
    assert len(values) == len(set(values)) > 2000
    assert {micro_op[1] for micro_ops in drawn for micro_op in micro_ops if micro_op[0] == "send"} == {
        f"log-{at}" for at in range(PARTITIONS)
    }
    assert {len([micro_op for micro_op in micro_ops if micro_op != ABORT]) for micro_ops in drawn} == set(
        range(1, MICRO_OPS_MAX + 1)
    )
    assert 0 < sum(micro_ops[-1] == ABORT for micro_ops in drawn) < 1000


@pytest.mark.parametrize(
    ("make", "given"),
    [(transactions, {"acks": "1"}), (transactions, {"zombies": "1"}), (late_end, {"client": "java"})],
    ids=str,
)
def test_unknown_options_are_refused(make: Any, given: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="expected"):
        make(given)


def test_the_late_end_s_second_transaction_is_open_while_it_waits() -> None:
    assert [micro_op[0] for op in LATE_END for micro_op in op.value] == ["send", "send", "poll", "send", "abort"]


@dataclass
class Broker:
    """One node that leads all and coordinates all, and leaves the first EndTxn without an answer."""

    asked: list[Any] = field(default_factory=list)

    async def call(self, request: Any, timeout_ms: int) -> Any:  # noqa: ARG002 - as Connection has it
        self.asked.append(request)
        name = type(request).__name__
        if name == "EndTxnRequest" and len(self.of("EndTxnRequest")) == 1:
            raise NoAnswer("kept back")
        return answers(name, epoch=4 if name == "EndTxnRequest" else 3)

    def of(self, name: str) -> list[Any]:
        return [request for request in self.asked if type(request).__name__ == name]

    async def close(self) -> None:
        pass


def answers(name: str, epoch: int) -> Any:
    class Answer:
        def __init__(self, **fields: Any) -> None:
            self.__dict__.update(error_code=ErrorCode.none, **fields)

    partitions = [Answer(partition_index=number, leader_id=1) for number in range(PARTITIONS)]
    produced = Answer(partition_responses=[Answer(base_offset=40)])
    return {
        "MetadataRequest": Answer(topics=[Answer(partitions=partitions)]),
        "FindCoordinatorRequest": Answer(coordinators=[Answer(node_id=1)]),
        "InitProducerIdRequest": Answer(producer_id=9, producer_epoch=epoch),
        "EndTxnRequest": Answer(producer_id=9, producer_epoch=epoch),
        "ProduceRequest": Answer(responses=[produced]),
    }[name]


def test_bumping_producer_ends_again_with_the_same_epoch_and_goes_on_with_the_next() -> None:
    async def two_transactions(broker: Broker) -> None:
        producer = BumpingProducer(lambda _node: broker, 1, "t")  # type: ignore[arg-type, return-value]
        for value in (1, 2):
            assert await producer.send("log-0", value) == 40
            await producer.end(commit=True)

    broker = Broker()
    asyncio.run(two_transactions(broker))
    assert [request.producer_epoch for request in broker.of("EndTxnRequest")] == [3, 3, 4]
    # Each epoch counts its batches anew: the sequence stands 53 bytes into a batch, behind id and epoch.
    batches = [request.topic_data[0].partition_data[0].records for request in broker.of("ProduceRequest")]
    assert [(int.from_bytes(batch[51:53]), int.from_bytes(batch[53:57])) for batch in batches] == [(3, 0), (4, 0)]


def test_bumping_producer_asks_again_until_the_last_transaction_s_markers_are_written() -> None:
    class Late(Broker):
        """Still writes markers when it is asked first; the first EndTxn has no answer at all."""

        async def call(self, request: Any, timeout_ms: int) -> Any:
            answer = await super().call(request, timeout_ms)
            name = type(request).__name__
            if len(self.of(name)) == {"InitProducerIdRequest": 1, "ProduceRequest": 1, "EndTxnRequest": 2}.get(name):
                said = answer.responses[0].partition_responses[0] if name == "ProduceRequest" else answer
                said.error_code = ErrorCode.concurrent_transactions
            return answer

    async def one_transaction(broker: Broker) -> None:
        producer = BumpingProducer(lambda _node: broker, 1, "t")  # type: ignore[arg-type, return-value]
        assert await producer.send("log-0", 1) == 40
        await producer.end(commit=True)

    broker = Late()
    asyncio.run(one_transaction(broker))
    assert len(broker.of("InitProducerIdRequest")) == 2
    # The record comes again as it was, and the end with the epoch that it had.
    first, again = broker.of("ProduceRequest")
    assert first == again
    assert [request.producer_epoch for request in broker.of("EndTxnRequest")] == [3, 3, 3]


def test_bumping_producer_says_nothing_was_sent_where_nobody_is_reached() -> None:
    class Nobody(Broker):
        async def call(self, request: Any, timeout_ms: int) -> Any:  # noqa: ARG002
            raise NotSent("connecting")

    producer = BumpingProducer(lambda _node: Nobody(), 1, "t")  # type: ignore[arg-type, return-value]
    with pytest.raises(NotSent):
        asyncio.run(producer.send("log-0", 1))
