"""A transactional producer of librdkafka.

librdkafka 2.16 sends EndTxn v1, which has the producer's id and epoch, but does not identify a transaction. After a
timeout it is resent on another connection, which causes KAFKA-17754.

Contains librdkafka's calls and the meaning of its errors. Which transactions there are is defined in transactions.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

from harness.model import PeerFailure
from harness.model.session import NoAnswer
from workloads.log_session import COMMON, DELIVERY_TIMEOUT_MS, REQUEST_TIMEOUT_MS, deliver, error_text
from workloads.log_topic import servers
from workloads.transactions_session import Fenced, Refused

SOCKET_TIMEOUT_MS = 2000
END_SECONDS = 10.0
READY_SECONDS = 60.0
FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
T = TypeVar("T")


class RdkafkaProducer:
    """workloads.transactions_session.TransactionalProducer, with its own thread, since librdkafka's calls block.

    Brokers abort a transaction that is open for timeout_seconds.
    """

    def __init__(self, addresses: Mapping[int, str], transactional_id: str, timeout_seconds: float) -> None:
        self._settings = {
            **COMMON,
            "bootstrap.servers": servers(addresses),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(timeout_seconds * 1000),
            "socket.timeout.ms": SOCKET_TIMEOUT_MS,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
            "linger.ms": 0,
        }
        self._producer: Producer | None = None
        self._has_begun = False
        self._thread = ThreadPoolExecutor(1)

    async def begin(self) -> None:
        """Begin a transaction, if none has begun; the first call also initializes the producer at the broker."""
        await self._in_thread(self._begin)

    async def send(self, key: str, value: int) -> int:
        """Send a record in the transaction, which the first record begins; returns its offset."""
        return await self._in_thread(lambda: self._send(key, value))

    async def end(self, commit: bool) -> None:
        """Commit or abort the transaction, if one has begun."""
        await self._in_thread(lambda: self._end(commit))

    async def close(self) -> None:
        """Abandon all pending operations."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._discard)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except KafkaException as failure:
            error = failure.args[0]
            raise (Fenced if error.code() in FENCED else PeerFailure)(error_text(error)) from failure

    def _begin(self) -> Producer:
        if self._producer is None:
            producer = Producer(self._settings)
            producer.init_transactions(END_SECONDS)
            self._producer = producer  # only now, so that a failed initialization is repeated with a new producer
        if not self._has_begun:
            self._producer.begin_transaction()
            self._has_begun = True
        return self._producer

    def _send(self, key: str, value: int) -> int:
        try:
            producer = self._begin()
        except KafkaException as failure:
            raise Refused(f"beginning: {error_text(failure.args[0])}") from failure
        try:
            error, message = deliver(producer, key, value)
        except NoAnswer as failure:
            raise Refused(str(failure)) from failure
        if error is not None:
            raise Refused(f"sending {value} to {key}: {error_text(error)}")
        return int(message.offset())

    def _end(self, commit: bool) -> None:
        if self._producer is None or not self._has_begun:
            return
        self._has_begun = False
        if commit:
            self._producer.commit_transaction(END_SECONDS)
        else:
            self._producer.abort_transaction(END_SECONDS)

    def _discard(self) -> None:
        self._producer = None


async def until_coordinator_ready(addresses: Mapping[int, str]) -> None:
    """Wait until a transaction coordinator responds; the first request creates its topic.

    Raises PeerFailure with the last error.
    """
    deadline = asyncio.get_running_loop().time() + READY_SECONDS
    while True:
        producer = RdkafkaProducer(addresses, "splitbrain-prepares", READY_SECONDS)
        try:
            await producer.begin()
            await producer.end(commit=False)
        except PeerFailure as error:
            if asyncio.get_running_loop().time() > deadline:
                raise PeerFailure(f"preparing transactions: not ready after {READY_SECONDS:g} s: {error}") from error
        else:
            return
        finally:
            await producer.close()
