"""Writes one batch of records to one broker, by a Produce request.

Contains the request and the interpretation of its response. Does not contain the choice of the broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from harness.model.session import Connection
from nodes.wire import codec
from nodes.wire.batches import Record, encode_batch

PRODUCE: Final = 0
VERSION: Final = 9
"""Every release from 2.8 on supports it; versions from 13 on have ids in place of topics' names (KIP-516)."""

NO_EPOCH: Final = -1
"""A client's batch has no leader epoch; the leader sets it."""


async def write_batch(
    connection: Connection,
    topic: str,
    partition: int,
    values: Sequence[bytes],
    key: bytes | None,
    acks: int,
    timestamp_ms: int,
    timeout_ms: int,
) -> int:
    """Write these values as one batch of records with this key; returns the offset of the first.

    acks is Kafka's: 1 for the leader, -1 for all in-sync replicas. Raises PeerFailure with the broker's error, and the
    connection's errors.
    """
    batch = encode_batch([Record(key, value) for value in values], 0, NO_EPOCH, timestamp_ms)
    request = {
        "transactional_id": None,
        "acks": acks,
        "timeout": timeout_ms,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}],
    }
    response = await connection.call(codec.build(PRODUCE, VERSION, "request", request), timeout_ms)
    (written,) = response.responses[0].partition_responses
    if written.error_code is not ErrorCode.none:
        reason = f" ({written.error_message})" if written.error_message else ""
        raise PeerFailure(f"writing {len(values)} records of {topic}-{partition}: {written.error_code.name}{reason}")
    return int(written.base_offset)
