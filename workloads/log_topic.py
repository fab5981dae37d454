"""The log's topic: its names, and how it comes to be there before clients begin.

That a broker's process is up is not enough: clients are refused until the controller has let it in. So every broker
must be listed before the topic is asked for, and every partition led and fully in sync after it.

What may live here: the topic. What may not: records.
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
COPIES_MAX = 3
CLIENT_PORT = 9092
PREPARE_SECONDS = 60.0
POLL_SECONDS = 0.1
CALL_SECONDS = 5.0


def name_of(partition: int) -> str:
    """The partition's name, which is the key of its operations, e.g. `log-2`."""
    return f"{TOPIC}-{partition}"


def number_of(key: str) -> int:
    """The partition that a key names."""
    return int(key.removeprefix(f"{TOPIC}-"))


def servers(addresses: Mapping[int, str]) -> str:
    """bootstrap.servers of these nodes."""
    return ",".join(f"{address}:{CLIENT_PORT}" for address in addresses.values())


async def create(addresses: Mapping[int, str], copies_max: int = COPIES_MAX) -> None:
    """Create the topic, with so many copies where there are as many brokers, once all brokers are there.

    The number of copies that must be in sync is left to the brokers' own configuration, as is all else.
    """
    admin = AdminClient({"bootstrap.servers": servers(addresses), "log_level": 0})
    nodes = len(addresses)
    await _until(lambda: _brokers_missing(admin, nodes))
    await _until(lambda: _topic_missing(admin, min(copies_max, nodes)))
    await _until(lambda: _partitions_missing(admin))


async def _until(trouble: Callable[[], str | None]) -> None:
    """Ask in a thread, again and again, until there is no trouble. Raises PeerFailure with the last one."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + PREPARE_SECONDS
    while (said := await asyncio.to_thread(_said, trouble)) is not None:
        if clock() > deadline:
            raise PeerFailure(f"preparing topic {TOPIC}: not done after {PREPARE_SECONDS:g} s: {said}")
        await asyncio.sleep(POLL_SECONDS)


def _said(trouble: Callable[[], str | None]) -> str | None:
    try:
        return trouble()
    except KafkaException as error:
        return str(error)


def _brokers_missing(admin: AdminClient, nodes: int) -> str | None:
    brokers = admin.list_topics(timeout=CALL_SECONDS).brokers
    return None if len(brokers) == nodes else f"of {nodes} brokers {sorted(brokers)} are there"


def _topic_missing(admin: AdminClient, copies: int) -> str | None:
    """Create it; an earlier request that nobody answered may have done so."""
    if TOPIC not in admin.list_topics(timeout=CALL_SECONDS).topics:
        wanted = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=copies)
        admin.create_topics([wanted], operation_timeout=CALL_SECONDS)[TOPIC].result(2 * CALL_SECONDS)
    return None


def _partitions_missing(admin: AdminClient) -> str | None:
    topic: Any = admin.list_topics(TOPIC, timeout=CALL_SECONDS).topics[TOPIC]
    ready = [part for part in topic.partitions.values() if part.leader >= 0 and set(part.isrs) == set(part.replicas)]
    return None if len(ready) == PARTITIONS else f"{len(ready)} of {PARTITIONS} partitions are led and in sync"
