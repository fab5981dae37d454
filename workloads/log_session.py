"""One process's clients of the log: a producer and a consumer of its own, librdkafka's (confluent-kafka).

librdkafka waits in its calls, so each session has one thread, in which its operations are carried out one at a time.
What is known of a send is told, and nothing else: an error that a broker gives before it appends is a failure, any
other may come for a record that is in the log (NOT_LEADER_OR_FOLLOWER may, KAFKA-13574), and is info. A producer that
the broker has shut out is replaced. A consumer never starts elsewhere by itself (auto.offset.reset=error): where its
position is no longer in the log, its process ends, and the next begins at the beginning.

What may live here: operations of single processes. What may not: which operations there are (log.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from harness.model import Op
from harness.model.session import NoAnswer
from workloads.log_group import Member, committed
from workloads.log_topic import PARTITIONS, TOPIC, name_of, number_of, servers

ClientSettings = Mapping[str, str | int]

REQUEST_TIMEOUT_MS = 2000
DELIVERY_TIMEOUT_MS = 4000
DELIVERY_SECONDS = 6.0
"""Longer than a delivery may take: librdkafka itself then says that it timed out."""

POLL_SECONDS = 0.1
POLL_RECORDS_MAX = 500
DRAIN_RECORDS_MAX = 10_000
DRAIN_QUIET_ROUNDS_MAX = 50

REFUSED = frozenset(
    {
        KafkaError.NOT_CONTROLLER,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
"""Errors of sends that were certainly not appended. TOPIC_EXCEPTION is INVALID_TOPIC_EXCEPTION."""

SHUT_OUT = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""As REFUSED, and the producer is of no more use."""

COMMON: ClientSettings = {
    "log_level": 0,
    "socket.timeout.ms": DELIVERY_TIMEOUT_MS,
    "reconnect.backoff.max.ms": 1000,
    "allow.auto.create.topics": False,
}


class LogSession:
    """harness.model.session.Session: both clients are made when they are first needed."""

    def __init__(
        self,
        addresses: Mapping[int, str],
        producer: ClientSettings,
        consumer: ClientSettings,
        assigns_itself: bool = True,
    ) -> None:
        """producer and consumer are settings besides ours; assigns_itself: the first poll need not be assigned."""
        common = {**COMMON, "bootstrap.servers": servers(addresses)}
        self._producer_settings = {
            **common,
            "linger.ms": 0,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
            **producer,
        }
        self._consumer_settings = {
            **common,
            "group.id": "splitbrain",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            "check.crcs": True,
            **consumer,
        }
        self._assigns_itself = assigns_itself
        self._member = Member()
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._thread = ThreadPoolExecutor(1)

    async def invoke(self, op: Op) -> Op:
        """Carry it out in the session's thread. Raises what librdkafka raises: of a send, that is info."""
        deeds = {
            "send": self._send,
            "poll": self._poll,
            "assign": self._assign,
            "subscribe": self._subscribe,
            "commit": self._commit,
            "committed": lambda op: committed(self._reader(), op),
            "drain": self._drain,
        }
        return await asyncio.get_running_loop().run_in_executor(self._thread, deeds[op.f], op)

    async def close(self) -> None:
        """Close both clients; what is still being delivered is given up."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _close(self) -> None:
        self._producer = None
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _send(self, op: Op) -> Op:
        """One record, and the broker's word on it."""
        if self._producer is None:
            self._producer = Producer(self._producer_settings)
        delivered: list[tuple[KafkaError | None, Any]] = []
        self._producer.produce(
            TOPIC,
            json.dumps(op.value),
            partition=number_of(str(op.key)),
            on_delivery=lambda error, message: delivered.append((error, message)),
        )
        self._producer.flush(DELIVERY_SECONDS)
        if not delivered:
            raise NoAnswer(f"sending {op.value} to {op.key}: nothing known after {DELIVERY_SECONDS:g} s")
        error, message = delivered[0]
        if error is None:
            return op.ok({"offset": message.offset(), "value": op.value})
        return self._undelivered(op, error)

    def _undelivered(self, op: Op, error: KafkaError) -> Op:
        if error.code() in SHUT_OUT:
            self._producer = None
        return op.fail(error.name()) if error.code() in REFUSED | SHUT_OUT else op.info(error.name())

    def _poll(self, op: Op) -> Op:
        """What has come since the last poll, waiting a little where nothing has."""
        if self._member.assignments == 0 and not self._assigns_itself:
            return op.fail("this process has not subscribed yet")
        if self._consumer is None:
            self._assign(op)
        assert self._consumer is not None
        assignments = self._member.assignments
        first = self._consumer.poll(POLL_SECONDS)
        rest = self._consumer.consume(POLL_RECORDS_MAX - 1, 0) if first else []
        messages: list[Any] = [first, *rest] if first else []
        got: dict[str, list[list[int]]] = {}
        for message in messages:
            if message.error() is not None:
                # What came before the error was delivered, and is evidence; the process ends here.
                return replace(op.info(_told(message.error())), value=got)
            got.setdefault(name_of(message.partition()), []).append(_record(message))
        self._member.polled(got, assignments)
        return op.ok(got)

    def _assign(self, op: Op) -> Op:
        """Every partition from its beginning, from now on."""
        self._reader().assign([_beginning_of(partition) for partition in range(PARTITIONS)])
        return op.ok()

    def _subscribe(self, op: Op) -> Op:
        """What the group leaves to this process, from now on."""
        self._member.subscribe(self._reader())
        return op.ok()

    def _commit(self, op: Op) -> Op:
        """What this process has polled of its partitions, for its group."""
        return self._member.commit(self._reader(), op)

    def _reader(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(self._consumer_settings)
        return self._consumer

    def _drain(self, op: Op) -> Op:
        """The partition from its beginning to its end, which its leader is asked for first: a leader that does not
        know yet how much of its log is committed does not answer that, while a fetch would end too soon."""
        partition = _beginning_of(number_of(str(op.key)))
        consumer = Consumer({**self._consumer_settings, "enable.partition.eof": True})
        try:
            _, end = consumer.get_watermark_offsets(partition, timeout=DELIVERY_SECONDS, cached=False)
            consumer.assign([partition])
            return op.ok(_read_up_to(consumer, end))
        finally:
            consumer.close()


def _beginning_of(partition: int) -> TopicPartition:
    return TopicPartition(TOPIC, partition, OFFSET_BEGINNING)


def _read_up_to(consumer: Consumer, end: int) -> list[list[int]]:
    """Read until the broker has nothing more at or behind this offset. Raises NoAnswer where nothing comes."""
    got: list[list[int]] = []
    quiet_rounds = 0
    while quiet_rounds < DRAIN_QUIET_ROUNDS_MAX:
        messages: list[Any] = consumer.consume(DRAIN_RECORDS_MAX, POLL_SECONDS)
        quiet_rounds = 0 if messages else quiet_rounds + 1
        for message in messages:
            error = message.error()
            if error is None:
                got.append(_record(message))
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            elif message.offset() >= end:
                return got
    raise NoAnswer(f"draining a partition up to offset {end}: nothing came after {len(got)} records")


def _told(error: KafkaError) -> str:
    """The error's name, and what librdkafka says of it."""
    return f"{error.name()}: {error.str()}"


def _record(message: Any) -> list[int]:
    return [message.offset(), json.loads(message.value())]
