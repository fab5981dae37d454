"""Waits until no open transaction blocks reads of a partition, so that a final read returns all committed records.

A read_committed consumer gets records only up to the last stable offset, which is the first record of the oldest open
transaction; committed records after it are not returned. The consumer also takes that offset for the partition's end.

Contains the comparison of the two end offsets. Records are read by log_session.py.
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
    """Wait until no transaction is open in the partition. Raises NoAnswer after STABLE_SECONDS."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + STABLE_SECONDS
    while (blocked := await asyncio.to_thread(_blocked_offsets, addresses, key)) > 0:
        if clock() > deadline:
            raise NoAnswer(f"draining {key}: an open transaction blocks {blocked} offsets")
        await asyncio.sleep(POLL_SECONDS)


def _blocked_offsets(addresses: Mapping[int, str], key: str) -> int:
    """The number of offsets after the last stable one. Raises NoAnswer if the leader does not respond."""
    try:
        return _end(addresses, key, "read_uncommitted") - _end(addresses, key, "read_committed")
    except KafkaException as error:
        raise NoAnswer(f"draining {key}: {error.args[0].str()}") from error


def _end(addresses: Mapping[int, str], key: str, isolation: str) -> int:
    """The partition's end for a consumer of this isolation level: its high watermark, or its last stable offset."""
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
