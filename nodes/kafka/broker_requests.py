"""Creates partitions with chosen replicas, and writes single batches of records to chosen brokers of real Kafka.

Contains the broker's part of nodes.kafka.requests. nemesis.faults.requests decides when.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from harness.model.faults.membership import Partition
from harness.model.faults.requests import Acks
from harness.model.session import Connection

CREATE_TOPICS = 19
TIMEOUT_MS = 20_000
ACKS: Mapping[Acks, int] = {"leader": 1, "all": -1}

Connect = Callable[[int, str], Connection]
"""A connection to a broker's listener for clients: node, client id."""

WriteBatch = Callable[[Connection, str, int, Sequence[bytes], int, int, int], Awaitable[int]]
"""Writes one batch to a broker: nodes.wire.produce.write_batch."""


class BrokerRequests:
    """Sends single requests to brokers."""

    def __init__(
        self, brokers: Iterable[int], connect: Connect, leader: Callable[[], int | None], write: WriteBatch
    ) -> None:
        """leader() returns the controller with ZooKeeper, or the quorum's leader, None if unknown."""
        self._brokers = {node: connect(node, "splitbrain-requests") for node in brokers}
        self._leader = leader
        self._write = write

    async def close(self) -> None:
        """Close every connection."""
        for connection in self._brokers.values():
            await connection.close()

    async def create_partition(self, topic: str, replicas: Sequence[int]) -> None:
        """Request the topic from the controller, or from the leader's broker, which forwards the request (KIP-590)."""
        leader = self._leader()
        what = f"creating {topic}-0 on {', '.join(f'n{node}' for node in replicas)}"
        if leader is None:
            raise PeerFailure(f"{what}: no node claims to be the leader")
        values = {"topics": [topic_values(topic, replicas)], "timeout": TIMEOUT_MS, "validate_only": False}
        response = await self._broker(leader, what).call_latest(CREATE_TOPICS, values, TIMEOUT_MS)
        (created,) = response.topics
        if created.error_code is not ErrorCode.none:
            raise PeerFailure(f"{what}: {created.error_code.name} ({created.error_message})")

    async def produce(self, node: int, partition: Partition, records: int, acks: Acks) -> int:
        """Write one batch to this broker, whose values name it; returns the offset of the first record."""
        broker = self._broker(node, f"writing {records} records to n{node}")
        values = [f"record {number} at n{node}".encode() for number in range(records)]
        return await self._write(broker, *partition, values, ACKS[acks], time.time_ns() // 1_000_000, TIMEOUT_MS)

    def _broker(self, node: int, what: str) -> Connection:
        if node not in self._brokers:
            raise PeerFailure(f"{what}: n{node} is not a broker")
        return self._brokers[node]


def topic_values(topic: str, replicas: Sequence[int]) -> dict[str, Any]:
    """A topic of a CreateTopics request: one partition with these replicas."""
    assignment = {"partition_index": 0, "broker_ids": list(replicas)}
    return {
        "name": topic,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [assignment],
        "configs": [],
    }
