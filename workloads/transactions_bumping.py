"""A transactional producer that gets a new epoch from every EndTxn (v5, KIP-890), which no Python client supports.

It looks up the partitions' leaders and its coordinator once; if one of them moves, its requests are rejected. EndTxn is
resent on a new connection after a timeout, as by every Kafka client.

    producer = BumpingProducer(connect, node=1, transactional_id="t-1")
    await producer.send("log-0", 7)
    await producer.end(commit=True)

Contains the requests of one producer. transactions_session.py determines how an op ends.
"""

from __future__ import annotations

import asyncio
import datetime
import io
import json
from collections.abc import Callable
from typing import Any

from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.produce.v12.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import Records, TZAwareMicros, i8, i16, i32, i32Timedelta, i64

from harness.model import PeerFailure
from harness.model.session import Connection, NoAnswer
from workloads.log_topic import TOPIC, number_of
from workloads.transactions_session import Refused
from workloads.workload import Connect

REQUEST_TIMEOUT_MS = 2000
READY_SECONDS = 10.0
POLL_SECONDS = 0.05
ENDS_MAX = 4
"""How often EndTxn is sent before its outcome is unknown."""

TRANSACTION_TIMEOUT = i32Timedelta.parse(datetime.timedelta(seconds=30))
RETRIABLE = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)
"""Errors of a coordinator that is still loading its log or writing the markers of the last transaction; and the error
of a partition's leader to Produce then, after add.partitions.to.txn.retry.backoff.max.ms (KIP-890)."""

TRANSACTION_COORDINATOR = i8(1)
"""The key type in FindCoordinator."""

TRANSACTIONAL = i16(0x10)
"""The attribute of a batch that belongs to a transaction."""

ALL_IN_SYNC = i16(-1)


class BumpingProducer:
    """A TransactionalProducer with Produce v12 and EndTxn v5; also raises its connection's errors."""

    def __init__(self, connect: Connect, node: int, transactional_id: str) -> None:
        self._connect, self._node, self._id = connect, node, TransactionalId(transactional_id)
        self._connections: dict[int, Connection] = {}
        self._leaders: dict[int, int] = {}
        self._coordinator: int | None = None
        self._producer: tuple[ProducerId, i16] | None = None
        self._sequences: dict[str, int] = {}

    async def send(self, key: str, value: int) -> int:
        """Send a record; Produce v12 also adds the partition to the transaction."""
        producer = self._producer or await self._initialize()
        sequence = self._sequences.get(key, 0)
        self._sequences[key] = sequence + 1
        leader, request = self._leaders[number_of(key)], self._produce(producer, key, sequence, value)
        partition = await self._retry(leader, request, lambda response: response.responses[0].partition_responses[0])
        if partition.error_code is not ErrorCode.none:
            raise Refused(f"sending {value} to {key}: {partition.error_code.name}")
        return int(partition.base_offset)

    async def end(self, commit: bool) -> None:
        """End the transaction; the response has the epoch of the next one."""
        if self._producer is None or not self._sequences:
            return
        producer_id, epoch = self._producer
        request = EndTxnRequest(
            transactional_id=self._id, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        response = await self._end_txn(request)
        if response.error_code is not ErrorCode.none:
            raise PeerFailure(f"ending: {response.error_code.name}")
        self._producer = response.producer_id, response.producer_epoch
        self._sequences.clear()

    async def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            await connection.close()

    async def _call(self, node: int, request: Any) -> Any:
        if node not in self._connections:
            self._connections[node] = self._connect(node)
        return await self._connections[node].call(request, REQUEST_TIMEOUT_MS)

    async def _initialize(self) -> tuple[ProducerId, i16]:
        """Look up the leaders and the coordinator, and initialize the producer. Raises Refused: no record was sent."""
        topic = MetadataRequestTopic(topic_id=None, name=TopicName(TOPIC))
        metadata = await self._call(
            self._node, MetadataRequest(topics=(topic,), include_topic_authorized_operations=False)
        )
        self._leaders = {each.partition_index: each.leader_id for each in metadata.topics[0].partitions}
        find = FindCoordinatorRequest(key_type=TRANSACTION_COORDINATOR, coordinator_keys=(self._id,))
        coordinator = await self._initial_call(self._node, find, lambda response: response.coordinators[0])
        self._coordinator = coordinator.node_id
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout=TRANSACTION_TIMEOUT)
        producer = await self._initial_call(coordinator.node_id, request, lambda response: response)
        self._producer = producer.producer_id, producer.producer_epoch
        return self._producer

    async def _initial_call(self, node: int, request: Any, part: Callable[[Any], Any]) -> Any:
        """A part of the response to a request before the first record. Raises Refused for an error."""
        result = await self._retry(node, request, part)
        if result.error_code is not ErrorCode.none:
            raise Refused(f"beginning: {result.error_code.name}")
        return result

    async def _retry(self, node: int, request: Any, part: Callable[[Any], Any]) -> Any:
        """A part of the response; the call is repeated while its error is retriable, for up to READY_SECONDS."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + READY_SECONDS
        while (result := part(await self._call(node, request))).error_code in RETRIABLE and clock() < deadline:
            await asyncio.sleep(POLL_SECONDS)
        return result

    async def _end_txn(self, request: EndTxnRequest) -> Any:
        assert self._coordinator is not None
        for _ in range(ENDS_MAX - 1):
            try:
                return await self._retry(self._coordinator, request, lambda response: response)
            except NoAnswer:
                continue
        return await self._retry(self._coordinator, request, lambda response: response)

    def _produce(self, producer: tuple[ProducerId, i16], key: str, sequence: int, value: int) -> ProduceRequest:
        batch = PartitionProduceData(index=i32(number_of(key)), records=_batch(producer, sequence, value))
        return ProduceRequest(
            transactional_id=self._id,
            acks=ALL_IN_SYNC,
            timeout=i32Timedelta.parse(datetime.timedelta(milliseconds=REQUEST_TIMEOUT_MS)),
            topic_data=(TopicProduceData(name=TopicName(TOPIC), partition_data=(batch,)),),
        )


def _batch(producer: tuple[ProducerId, i16], sequence: int, value: int) -> Records:
    """A batch of one record, with timestamp 0."""
    record = Record(
        attributes=i8(0),
        timestamp=TZAwareMicros.parse(datetime.datetime.fromtimestamp(0, datetime.UTC)),
        offset=i64(0),
        key=None,
        value=json.dumps(value).encode(),
        headers=(),
    )
    producer_id, epoch = producer
    batch = NewRecordBatch(
        producer_id=i64(producer_id),
        producer_epoch=epoch,
        base_sequence=i32(sequence),
        records=(record,),
        attributes=TRANSACTIONAL,
    )
    with io.BytesIO() as buffer:
        write_new_batch(buffer, batch)
        return Records.parse(buffer.getvalue())
