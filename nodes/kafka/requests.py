"""Sends single requests to chosen nodes of real Kafka. nemesis.faults.requests decides when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from harness.model.faults.membership import Partition
from harness.model.faults.requests import Acks
from harness.model.layouts import CLIENT_PORT
from harness.model.session import Connection
from nodes.observe.describe_quorum import describe_quorum

CREATE_TOPICS = 19
POLL_MS = 1000
POLL_SECONDS = 0.05
TIMEOUT_MS = 20_000
"""How long the records of a topic may take to be appended, and a request to be answered."""

ACKS: Mapping[Acks, int] = {"leader": 1, "all": -1}

Connect = Callable[[int, str, int], Connection]
"""A connection to a node: its id, the client's id, the port."""

WriteBatch = Callable[[Connection, str, int, Sequence[bytes], bytes | None, int, int, int], Awaitable[int]]
"""Writes one batch to a broker: nodes.wire.produce.write_batch."""


class KafkaRequests:
    """harness.model.faults.requests.Requests of controllers and brokers; a node may be both."""

    def __init__(
        self,
        controllers: Mapping[int, int],
        brokers: Iterable[int],
        connect: Connect,
        leader: Callable[[], int | None],
        write: WriteBatch,
    ) -> None:
        """leader() returns the quorum's leader, or the controller with ZooKeeper; None if unknown."""
        self._controllers = {node: connect(node, "splitbrain-requests", port) for node, port in controllers.items()}
        self._watchers = {node: connect(node, "splitbrain-requests-watch", port) for node, port in controllers.items()}
        self._brokers = {node: connect(node, "splitbrain-requests", CLIENT_PORT) for node in brokers}
        self._leader = leader
        self._write = write

    async def close(self) -> None:
        """Close every connection; a request that is still unanswered stays so."""
        for connections in (self._controllers, self._watchers, self._brokers):
            for connection in connections.values():
                await connection.close()

    async def create_topic(self, node: int, topic: str, partitions: int, is_answered: bool) -> int:
        """Request a topic with one replica per partition; returns how far the controller's log grew."""
        new = _topic(topic, partitions=partitions, replicas=1)
        what = f"creating the topic {topic} at n{node}"
        before = await self._log_end(node)
        request = asyncio.create_task(_create(self._controllers[node], new, what))
        try:
            end = await self._grown_log_end(node, before + partitions, request)
            if is_answered:
                await request
        finally:
            request.cancel()
        return end - before

    async def create_partition(self, topic: str, replicas: Sequence[int], configs: Mapping[str, str]) -> None:
        """Request the topic from the controller, or from the leader's broker, which forwards the request (KIP-590)."""
        leader = self._leader()
        what = f"creating {topic}-0 on {', '.join(f'n{node}' for node in replicas)}"
        if leader is None:
            raise PeerFailure(f"{what}: no node claims to be the leader")
        assignment = {"partition_index": 0, "broker_ids": list(replicas)}
        new = _topic(topic, assignments=[assignment], configs=configs)
        await _create(self._broker(leader, what), new, what)

    async def produce(self, node: int, partition: Partition, records: int, acks: Acks, key: str | None) -> int:
        """Write one batch to this broker, whose values name it; returns the offset of the first record."""
        encoded = None if key is None else key.encode()
        broker = self._broker(node, f"writing {records} records to n{node}")
        values = [f"record {number} at n{node}".encode() for number in range(records)]
        now_ms = time.time_ns() // 1_000_000
        return await self._write(broker, *partition, values, encoded, ACKS[acks], now_ms, TIMEOUT_MS)

    def _broker(self, node: int, what: str) -> Connection:
        if node not in self._brokers:
            raise PeerFailure(f"{what}: n{node} is not a broker")
        return self._brokers[node]

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


def _topic(
    name: str,
    partitions: int = -1,
    replicas: int = -1,
    assignments: Sequence[Any] = (),
    configs: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A topic of a CreateTopics request. The numbers are -1 where the replicas of each partition are assigned."""
    numbers = {"num_partitions": partitions, "replication_factor": replicas}
    named = [{"name": config, "value": value} for config, value in (configs or {}).items()]
    return {"name": name, **numbers, "assignments": list(assignments), "configs": named}


async def _create(connection: Connection, topic: Mapping[str, Any], what: str) -> None:
    """Request a topic. Raises PeerFailure, which begins with `what`, if it is refused."""
    values = {"topics": [topic], "timeout": TIMEOUT_MS, "validate_only": False}
    response = await connection.call_latest(CREATE_TOPICS, values, TIMEOUT_MS)
    (created,) = response.topics
    if created.error_code is not ErrorCode.none:
        raise PeerFailure(f"{what}: {created.error_code.name} ({created.error_message})")
