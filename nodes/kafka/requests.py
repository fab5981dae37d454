"""Sends single requests to chosen nodes of real Kafka. nemesis.faults.requests decides when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from harness.model import PeerFailure
from harness.model.faults.membership import Partition
from harness.model.faults.requests import Acks
from harness.model.session import Connection
from nodes.kafka.broker_requests import BrokerRequests
from nodes.observe.describe_quorum import describe_quorum

CREATE_TOPICS = 19
POLL_MS = 1000
POLL_SECONDS = 0.05
TIMEOUT_MS = 20_000
"""How long the records of a topic may take to be appended, and the request to be answered."""

Connect = Callable[[int, str], Connection]
"""A connection to a node's controller: node, client id."""


class KafkaRequests:
    """harness.model.faults.requests.Requests of controllers, and of brokers."""

    def __init__(self, controllers: Iterable[int], connect: Connect, brokers: BrokerRequests) -> None:
        nodes = tuple(controllers)
        self._of_brokers = brokers
        self._senders = {node: connect(node, "splitbrain-requests") for node in nodes}
        self._watchers = {node: connect(node, "splitbrain-requests-watch") for node in nodes}

    async def close(self) -> None:
        """Close every connection; a request that is still unanswered stays so."""
        for connection in (*self._senders.values(), *self._watchers.values()):
            await connection.close()
        await self._of_brokers.close()

    async def create_partition(self, topic: str, replicas: Sequence[int]) -> None:
        """Create a topic with one partition that has these replicas."""
        await self._of_brokers.create_partition(topic, replicas)

    async def produce(self, node: int, partition: Partition, records: int, acks: Acks) -> int:
        """Write one batch of records to this broker; returns the offset of the first record."""
        return await self._of_brokers.produce(node, partition, records, acks)

    async def create_topic(self, node: int, topic: str, partitions: int, is_answered: bool) -> int:
        """Request a topic with one replica per partition; returns how far the controller's log grew."""
        before = await self._log_end(node)
        request = asyncio.create_task(self._create_topic(node, topic, partitions))
        try:
            end = await self._grown_log_end(node, before + partitions, request)
            if is_answered:
                await request
        finally:
            request.cancel()
        return end - before

    async def _create_topic(self, node: int, topic: str, partitions: int) -> None:
        new = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
        values = {"topics": [new], "timeout": TIMEOUT_MS, "validate_only": False}
        response = await self._senders[node].call_latest(CREATE_TOPICS, values, TIMEOUT_MS)
        (created,) = response.topics
        if created.error_code.name != "none":
            problem = f"{created.error_code.name} ({created.error_message})"
            raise PeerFailure(f"creating the topic {topic} at n{node}: {problem}")

    async def _grown_log_end(self, node: int, expected: int, request: asyncio.Task[None]) -> int:
        """Wait until the controller's log reaches an offset; raises what the request failed with before."""
        deadline = asyncio.get_running_loop().time() + TIMEOUT_MS / 1000
        while (end := await self._log_end(node)) < expected:
            if request.done():
                request.result()
            if asyncio.get_running_loop().time() > deadline:
                raise PeerFailure(f"creating a topic at n{node}: expected its log to reach {expected}, found {end}")
            await asyncio.sleep(POLL_SECONDS)
        return end

    async def _log_end(self, node: int) -> int:
        described = await describe_quorum(self._watchers[node], POLL_MS)
        if described.log_end_offset is None:
            raise PeerFailure(f"creating a topic at n{node}: expected the leader, found {described.error}")
        return described.log_end_offset
