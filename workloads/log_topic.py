"""The log's topic: its names, and its creation before clients start.

A running broker rejects clients until the controller has unfenced it. So all brokers must be registered before the
topic is created, and afterwards every partition must have a leader and all its replicas in sync.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from harness.model import PeerFailure

TOPIC = "log"
PARTITIONS = 4
REPLICAS_MAX = 3
CLIENT_PORT = 9092
PREPARE_SECONDS = 60.0
POLL_SECONDS = 0.1
CALL_SECONDS = 5.0


def key_of(partition: int) -> str:
    """The key of a partition's operations, e.g. `log-2`."""
    return f"{TOPIC}-{partition}"


def number_of(key: str) -> int:
    """The partition of a key."""
    return int(key.removeprefix(f"{TOPIC}-"))


def servers(addresses: Mapping[int, str]) -> str:
    """bootstrap.servers of these nodes."""
    return ",".join(f"{address}:{CLIENT_PORT}" for address in addresses.values())


async def create(addresses: Mapping[int, str], replicas_max: int = REPLICAS_MAX) -> None:
    """Create the topic once all brokers are registered, with replicas_max replicas or one per broker.

    min.insync.replicas and all other settings are those of the brokers' configuration.
    """
    admin = AdminClient({"bootstrap.servers": servers(addresses), "log_level": 0})
    nodes = len(addresses)
    await _until_none(lambda: _missing_brokers(admin, nodes))
    await _until_none(lambda: _missing_topic(admin, min(replicas_max, nodes)))
    await _until_none(lambda: _missing_partitions(admin))


async def _until_none(problem: Callable[[], str | None]) -> None:
    """Call the function in a thread until it returns no problem. Raises PeerFailure with the last one."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + PREPARE_SECONDS
    while (text := await asyncio.to_thread(_caught, problem)) is not None:
        if clock() > deadline:
            raise PeerFailure(f"preparing topic {TOPIC}: not ready after {PREPARE_SECONDS:g} s: {text}")
        await asyncio.sleep(POLL_SECONDS)


def _caught(problem: Callable[[], str | None]) -> str | None:
    try:
        return problem()
    except KafkaException as error:
        return str(error)


def _missing_brokers(admin: AdminClient, nodes: int) -> str | None:
    brokers = admin.list_topics(timeout=CALL_SECONDS).brokers
    return None if len(brokers) == nodes else f"expected {nodes} registered brokers, found {sorted(brokers)}"


def _missing_topic(admin: AdminClient, replicas: int) -> str | None:
    """Create the topic, unless an earlier request that timed out has created it."""
    if TOPIC not in admin.list_topics(timeout=CALL_SECONDS).topics:
        topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=replicas)
        admin.create_topics([topic], operation_timeout=CALL_SECONDS)[TOPIC].result(2 * CALL_SECONDS)
    return None


def _missing_partitions(admin: AdminClient) -> str | None:
    topic: Any = admin.list_topics(TOPIC, timeout=CALL_SECONDS).topics[TOPIC]
    ready = [part for part in topic.partitions.values() if part.leader >= 0 and set(part.isrs) == set(part.replicas)]
    if len(ready) == PARTITIONS:
        return None
    return f"{len(ready)} of {PARTITIONS} partitions have a leader and all replicas in sync"
