"""Waiting until nothing in a partition is kept back by an open transaction, so that reading to its end reads it all.

A consumer that reads what is committed is told of records up to the last stable offset alone: the first record of the
oldest open transaction, behind which committed ones may wait. Its own idea of the partition's end is that offset too.

What may live here: the two ends. What may not: reading records (log_session.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from harness.model.session import NoAnswer
from workloads.log_session import COMMON, DELIVERY_SECONDS
from workloads.log_topic import TOPIC, number_of, servers

STABLE_SECONDS = 10.0
POLL_SECONDS = 0.2


async def until_stable(addresses: Mapping[int, str], key: str) -> None:
    """Wait until no transaction is open in the partition. Raises NoAnswer where one stays so."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + STABLE_SECONDS
    while (kept_back := await asyncio.to_thread(_kept_back, addresses, key)) > 0:
        if clock() > deadline:
            raise NoAnswer(f"draining {key}: an open transaction keeps {kept_back} offsets back")
        await asyncio.sleep(POLL_SECONDS)


def _kept_back(addresses: Mapping[int, str], key: str) -> int:
    """How many offsets there are behind the last stable one. Raises NoAnswer where the leader does not tell."""
    try:
        return _end(addresses, key, "read_uncommitted") - _end(addresses, key, "read_committed")
    except KafkaException as error:
        raise NoAnswer(f"draining {key}: {error.args[0].str()}") from error


def _end(addresses: Mapping[int, str], key: str, isolation: str) -> int:
    """Where the partition ends for a consumer of this isolation: at its high watermark, or the last stable offset."""
    settings = {
        **COMMON,
        "bootstrap.servers": servers(addresses),
        "group.id": "splitbrain",
        "isolation.level": isolation,
    }
    consumer = Consumer(settings)
    try:
        partition = TopicPartition(TOPIC, number_of(key))
        return int(consumer.get_watermark_offsets(partition, timeout=DELIVERY_SECONDS, cached=False)[1])
    finally:
        consumer.close()
