"""A transactional producer of librdkafka's, one transactional.id each.

librdkafka 2.16 sends EndTxn v1, which names a producer's id and epoch, and so no transaction in particular; one that
is not answered in time is sent again on another connection (KAFKA-17754 is what comes of it).

What may live here: librdkafka's calls, and what its errors mean. What may not: which transactions there are.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

from harness.model import PeerFailure
from workloads.log_session import COMMON, DELIVERY_SECONDS, DELIVERY_TIMEOUT_MS, REQUEST_TIMEOUT_MS
from workloads.log_topic import TOPIC, number_of, servers
from workloads.transactions_session import Fenced, Refused

SOCKET_TIMEOUT_MS = 2000
END_SECONDS = 10.0
READY_SECONDS = 60.0
FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
T = TypeVar("T")


class RdkafkaProducer:
    """workloads.transactions_session.Producing, in a thread of its own, as librdkafka waits in its calls.

    What nobody ends, brokers abort after open_seconds.
    """

    def __init__(self, addresses: Mapping[int, str], transactional_id: str, open_seconds: float) -> None:
        self._settings = {
            **COMMON,
            "bootstrap.servers": servers(addresses),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(open_seconds * 1000),
            "socket.timeout.ms": SOCKET_TIMEOUT_MS,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
            "linger.ms": 0,
        }
        self._producer: Producer | None = None
        self._has_begun = False
        self._thread = ThreadPoolExecutor(1)

    async def begin(self) -> None:
        """Begin a transaction, if none has begun; the first has the broker know the producer."""
        await self._in_thread(self._begun)

    async def send(self, key: str, value: int) -> int:
        """Send a record in the transaction, which the first one begins; returns its offset."""
        return await self._in_thread(lambda: self._send(key, value))

    async def end(self, commit: bool) -> None:
        """Commit or abort the transaction, if one has begun."""
        await self._in_thread(lambda: self._end(commit))

    async def close(self) -> None:
        """Give up whatever is under way."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._forget)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, deed: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, deed)
        except KafkaException as error:
            refusal = error.args[0]
            raise (Fenced if refusal.code() in FENCED else PeerFailure)(_words(refusal)) from error

    def _begun(self) -> Producer:
        if self._producer is None:
            producer = Producer(self._settings)
            producer.init_transactions(END_SECONDS)
            self._producer = producer  # one whose beginning failed would have to be asked for the rest of it
        if not self._has_begun:
            self._producer.begin_transaction()
            self._has_begun = True
        return self._producer

    def _send(self, key: str, value: int) -> int:
        try:
            producer = self._begun()
        except KafkaException as error:
            raise Refused(f"beginning: {_words(error.args[0])}") from error
        delivered: list[tuple[KafkaError | None, Any]] = []
        told = lambda error, message: delivered.append((error, message))  # noqa: E731 - librdkafka wants a callable
        producer.produce(TOPIC, json.dumps(value), partition=number_of(key), on_delivery=told)
        producer.flush(DELIVERY_SECONDS)
        if not delivered:
            raise Refused(f"sending {value} to {key}: nothing known after {DELIVERY_SECONDS:g} s")
        refusal, message = delivered[0]
        if refusal is not None:
            raise Refused(f"sending {value} to {key}: {_words(refusal)}")
        return int(message.offset())

    def _end(self, commit: bool) -> None:
        if self._producer is None or not self._has_begun:
            return
        self._has_begun = False
        if commit:
            self._producer.commit_transaction(END_SECONDS)
        else:
            self._producer.abort_transaction(END_SECONDS)

    def _forget(self) -> None:
        self._producer = None


def _words(error: KafkaError) -> str:
    return f"{error.name()}: {error.str()}"


async def make_ready(addresses: Mapping[int, str]) -> None:
    """Wait until a coordinator of transactions answers: its topic is made when it is first asked for.

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
                raise PeerFailure(f"preparing transactions: not done after {READY_SECONDS:g} s: {error}") from error
        else:
            return
        finally:
            await producer.close()
