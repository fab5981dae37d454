"""One process's session of the log workload: a producer and a consumer of librdkafka (confluent-kafka).

librdkafka's calls block, so each session has one thread, which executes one operation at a time. A send fails if the
broker rejects it before it appends; after any other error the record may be in the log (also after
NOT_LEADER_OR_FOLLOWER, KAFKA-13574), so the op is info. A fenced producer is replaced. A consumer never resets its
position (auto.offset.reset=error): if its position is no longer in the log, its process ends, and the next one starts
at the beginning.

A consumer can hang in librdkafka: its threads wait for each other when a fenced broker is forgotten (librdkafka's issue
5476). Its polls return nothing then, but `assign` never returns, and keeps Python's global lock. So each assignment has
a consumer of its own, and a consumer that does not close is left to its thread.

Contains the execution of operations. Which operations there are is defined in log.py.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from harness.model import Op
from harness.model.session import NoAnswer
from workloads.log_group import Member, committed
from workloads.log_topic import PARTITIONS, TOPIC, key_of, number_of, servers

ClientSettings = Mapping[str, str | int]

REQUEST_TIMEOUT_MS = 2000
DELIVERY_TIMEOUT_MS = 4000
DELIVERY_SECONDS = 6.0
"""Longer than DELIVERY_TIMEOUT_MS, after which librdkafka reports a timeout."""

CLOSE_SECONDS = 5.0
"""How long a consumer is waited for that is being closed."""

POLL_SECONDS = 0.1
POLL_RECORDS_MAX = 500
DRAIN_RECORDS_MAX = 10_000
DRAIN_EMPTY_POLLS_MAX = 50

REJECTED = frozenset(
    {
        KafkaError.NOT_CONTROLLER,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
"""Errors of sends that were certainly not appended. TOPIC_EXCEPTION is INVALID_TOPIC_EXCEPTION."""

FATAL = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""As REJECTED, and the producer can no longer be used."""

COMMON: ClientSettings = {
    "log_level": 0,
    "socket.timeout.ms": DELIVERY_TIMEOUT_MS,
    "reconnect.backoff.max.ms": 1000,
    "allow.auto.create.topics": False,
}


class LogSession:
    """harness.model.session.Session; both clients are created when first needed."""

    def __init__(
        self,
        addresses: Mapping[int, str],
        producer: ClientSettings,
        consumer: ClientSettings,
        assigns_itself: bool = True,
    ) -> None:
        """producer and consumer are additional settings; assigns_itself: the first poll assigns all partitions."""
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
        """Execute an operation in the session's thread. Raises librdkafka's errors."""
        operations = {
            "send": self._send,
            "poll": self._poll,
            "assign": self._assign,
            "subscribe": self._subscribe,
            "commit": self._commit,
            "committed": lambda op: committed(self._open_consumer(), op),
            "drain": self._drain,
        }
        return await asyncio.get_running_loop().run_in_executor(self._thread, operations[op.f], op)

    async def close(self) -> None:
        """Close both clients; pending deliveries are abandoned."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _close(self) -> None:
        self._producer = None
        if self._consumer is not None:
            close_in_thread(self._consumer).join(CLOSE_SECONDS)
            self._consumer = None

    def _send(self, op: Op) -> Op:
        """Send one record and wait for its delivery report."""
        if self._producer is None:
            self._producer = Producer(self._producer_settings)
        error, message = deliver(self._producer, str(op.key), op.value)
        if error is not None:
            return self._failed_send(op, error)
        by_leader = {"acks": 1} if self._producer_settings.get("acks") == "1" else {}
        return op.ok({"offset": message.offset(), "value": op.value, **by_leader})

    def _failed_send(self, op: Op, error: KafkaError) -> Op:
        if error.code() in FATAL:
            self._producer = None
        return op.fail(error.name()) if error.code() in REJECTED | FATAL else op.info(error.name())

    def _poll(self, op: Op) -> Op:
        """The records since the last poll; waits up to POLL_SECONDS for one."""
        if self._member.assignments == 0 and not self._assigns_itself:
            return op.fail("this process has not subscribed yet")
        if self._consumer is None:
            self._assign(op)
        assert self._consumer is not None
        assignments = self._member.assignments
        first = self._consumer.poll(POLL_SECONDS)
        rest = self._consumer.consume(POLL_RECORDS_MAX - 1, 0) if first else []
        messages: list[Any] = [first, *rest] if first else []
        records: dict[str, list[list[int]]] = {}
        for message in messages:
            if message.error() is not None:
                # The records before the error were delivered and are evidence; info ends the process.
                return replace(op.info(error_text(message.error())), value=records)
            records.setdefault(key_of(message.partition()), []).append(_record(message))
        self._member.polled(records, assignments)
        return op.ok(records)

    def _assign(self, op: Op) -> Op:
        """Read all partitions from their beginning from now on."""
        if self._consumer is not None:
            close_in_thread(self._consumer)
            self._consumer = None
        self._open_consumer().assign([_beginning_of(partition) for partition in range(PARTITIONS)])
        return op.ok()

    def _subscribe(self, op: Op) -> Op:
        """Read the partitions that the group assigns from now on."""
        self._member.subscribe(self._open_consumer())
        return op.ok()

    def _commit(self, op: Op) -> Op:
        """Commit this process's positions for its group."""
        return self._member.commit(self._open_consumer(), op)

    def _open_consumer(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(self._consumer_settings)
        return self._consumer

    def _drain(self, op: Op) -> Op:
        """Read the partition from its beginning to its end, whose offset is requested first: a new leader that does
        not know its high watermark yet rejects this request, but would answer a fetch with too few records."""
        partition = _beginning_of(number_of(str(op.key)))
        consumer = Consumer({**self._consumer_settings, "enable.partition.eof": True})
        try:
            _, end = consumer.get_watermark_offsets(partition, timeout=DELIVERY_SECONDS, cached=False)
            consumer.assign([partition])
            return op.ok(_read_to(consumer, end))
        finally:
            close_in_thread(consumer).join(CLOSE_SECONDS)


def close_in_thread(consumer: Consumer) -> threading.Thread:
    """The thread that closes a consumer. It does not keep the process from ending if the consumer hangs."""
    thread = threading.Thread(target=consumer.close, name="closes a consumer", daemon=True)
    thread.start()
    return thread


def deliver(producer: Producer, key: str, value: int) -> tuple[KafkaError | None, Any]:
    """Send one record and wait for its delivery report: an error or None, and the message.

    Raises NoAnswer without a report after DELIVERY_SECONDS.
    """
    delivered: list[tuple[KafkaError | None, Any]] = []
    producer.produce(
        TOPIC,
        json.dumps(value),
        partition=number_of(key),
        on_delivery=lambda error, message: delivered.append((error, message)),
    )
    producer.flush(DELIVERY_SECONDS)
    if not delivered:
        raise NoAnswer(f"sending {value} to {key}: no delivery report after {DELIVERY_SECONDS:g} s")
    return delivered[0]


def _beginning_of(partition: int) -> TopicPartition:
    return TopicPartition(TOPIC, partition, OFFSET_BEGINNING)


def _read_to(consumer: Consumer, end: int) -> list[list[int]]:
    """Read until the partition's end, which is at `end` or later. Raises NoAnswer if no more records arrive."""
    records: list[list[int]] = []
    empty_polls = 0
    while empty_polls < DRAIN_EMPTY_POLLS_MAX:
        messages: list[Any] = consumer.consume(DRAIN_RECORDS_MAX, POLL_SECONDS)
        empty_polls = 0 if messages else empty_polls + 1
        for message in messages:
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            elif message.offset() >= end:
                return records
    raise NoAnswer(f"draining a partition up to offset {end}: no record arrived after the first {len(records)}")


def error_text(error: KafkaError) -> str:
    """The error's name and librdkafka's text."""
    return f"{error.name()}: {error.str()}"


def _record(message: Any) -> list[int]:
    return [message.offset(), json.loads(message.value())]
