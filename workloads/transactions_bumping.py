"""A transactional producer of ours that gets a new epoch from every EndTxn (v5, KIP-890), as no Python client does.

It asks once who leads the partitions and who coordinates its transactions: where either moves, it is refused. EndTxn is
sent again on a new connection when no answer comes in time, as every client of Kafka does.

    producer = BumpingProducer(connect, node=1, transactional_id="t-1")
    await producer.send("log-0", 7)
    await producer.end(commit=True)

What may live here: the requests of one producer. What may not: what an end means for a history.
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
"""How often EndTxn is sent before its end is left open."""

TRANSACTION_TIMEOUT = i32Timedelta.parse(datetime.timedelta(seconds=30))
NOT_YET = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)
"""What a coordinator answers that is yet to read its log, or to write the markers of the last transaction; and what a
partition's leader then answers to Produce, when it has waited add.partitions.to.txn.retry.backoff.max.ms (KIP-890)."""

OF_TRANSACTIONS = i8(1)
"""The kind of coordinator that is asked for."""

TRANSACTIONAL = i16(0x10)
"""The attribute of a batch that belongs to a transaction."""

ALL_IN_SYNC = i16(-1)


class BumpingProducer:
    """workloads.transactions_session.Producing by Produce v12 and EndTxn v5; raises what its connection raises."""

    def __init__(self, connect: Connect, node: int, transactional_id: str) -> None:
        self._connect, self._node, self._id = connect, node, TransactionalId(transactional_id)
        self._connections: dict[int, Connection] = {}
        self._leaders: dict[int, int] = {}
        self._coordinator: int | None = None
        self._producer: tuple[ProducerId, i16] | None = None
        self._sequences: dict[str, int] = {}

    async def send(self, key: str, value: int) -> int:
        """Send a record; that the partition belongs to the transaction, Produce v12 says by itself."""
        producer = self._producer or await self._begin()
        sequence = self._sequences.get(key, 0)
        self._sequences[key] = sequence + 1
        leader, request = self._leaders[number_of(key)], self._produce(producer, key, sequence, value)
        partition = await self._asked(leader, request, lambda answer: answer.responses[0].partition_responses[0])
        if partition.error_code is not ErrorCode.none:
            raise Refused(f"sending {value} to {key}: {partition.error_code.name}")
        return int(partition.base_offset)

    async def end(self, commit: bool) -> None:
        """End the transaction; the answer brings the epoch of the next."""
        if self._producer is None or not self._sequences:
            return
        producer_id, epoch = self._producer
        request = EndTxnRequest(
            transactional_id=self._id, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        response = await self._answered(request)
        if response.error_code is not ErrorCode.none:
            raise PeerFailure(f"ending: {response.error_code.name}")
        self._producer = response.producer_id, response.producer_epoch
        self._sequences.clear()

    async def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            await connection.close()

    async def _ask(self, node: int, request: Any) -> Any:
        if node not in self._connections:
            self._connections[node] = self._connect(node)
        return await self._connections[node].call(request, REQUEST_TIMEOUT_MS)

    async def _begin(self) -> tuple[ProducerId, i16]:
        """Find the nodes to ask, and have the coordinator know the producer. Raises Refused: nothing was sent yet."""
        topic = MetadataRequestTopic(topic_id=None, name=TopicName(TOPIC))
        described = await self._ask(
            self._node, MetadataRequest(topics=(topic,), include_topic_authorized_operations=False)
        )
        self._leaders = {each.partition_index: each.leader_id for each in described.topics[0].partitions}
        wanted = FindCoordinatorRequest(key_type=OF_TRANSACTIONS, coordinator_keys=(self._id,))
        found = await self._ready(self._node, wanted, lambda answer: answer.coordinators[0])
        self._coordinator = found.node_id
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout=TRANSACTION_TIMEOUT)
        known = await self._ready(found.node_id, request, lambda answer: answer)
        self._producer = known.producer_id, known.producer_epoch
        return self._producer

    async def _ready(self, node: int, request: Any, part: Callable[[Any], Any]) -> Any:
        """That part of the answer of what a transaction begins with. Raises Refused where it is an error."""
        answer = await self._asked(node, request, part)
        if answer.error_code is not ErrorCode.none:
            raise Refused(f"beginning: {answer.error_code.name}")
        return answer

    async def _asked(self, node: int, request: Any, part: Callable[[Any], Any]) -> Any:
        """That part of the answer, asked for until it is none of NOT_YET, or READY_SECONDS are over."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + READY_SECONDS
        while (answer := part(await self._ask(node, request))).error_code in NOT_YET and clock() < deadline:
            await asyncio.sleep(POLL_SECONDS)
        return answer

    async def _answered(self, request: EndTxnRequest) -> Any:
        assert self._coordinator is not None
        for _ in range(ENDS_MAX - 1):
            try:
                return await self._asked(self._coordinator, request, lambda answer: answer)
            except NoAnswer:
                continue
        return await self._asked(self._coordinator, request, lambda answer: answer)

    def _produce(self, producer: tuple[ProducerId, i16], key: str, sequence: int, value: int) -> ProduceRequest:
        batch = PartitionProduceData(index=i32(number_of(key)), records=_batch(producer, sequence, value))
        return ProduceRequest(
            transactional_id=self._id,
            acks=ALL_IN_SYNC,
            timeout=i32Timedelta.parse(datetime.timedelta(milliseconds=REQUEST_TIMEOUT_MS)),
            topic_data=(TopicProduceData(name=TopicName(TOPIC), partition_data=(batch,)),),
        )


def _batch(producer: tuple[ProducerId, i16], sequence: int, value: int) -> Records:
    """A batch of one record, with the time that a record without one has."""
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
