"""One batch of records in a Produce request, and the broker's answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from nodes.wire import codec
from nodes.wire.batches import heads, is_intact, records
from nodes.wire.produce import PRODUCE, VERSION, write_batch

VALUES = [b"a", b"b", b"c"]


class FakeBroker:
    """Answers every request with this offset, or with this error."""

    def __init__(self, base_offset: int = 11, error_code: int = 0) -> None:
        self.requests: list[Any] = []
        self.answer = {
            "index": 0,
            "error_code": ErrorCode(error_code),
            "base_offset": base_offset,
            "log_append_time": None,
            "log_start_offset": 0,
            "record_errors": [],
            "error_message": None,
        }

    async def call(self, request: Any, timeout_ms: int) -> Any:  # noqa: ARG002
        self.requests.append(request)
        topics = [{"name": "t", "partition_responses": [self.answer]}]
        return codec.build(PRODUCE, VERSION, "response", {"responses": topics, "throttle_time": 0})


def write(broker: FakeBroker, acks: int = -1) -> int:
    return asyncio.run(write_batch(broker, "t", 2, VALUES, b"k", acks, timestamp_ms=7, timeout_ms=500))  # type: ignore[arg-type]


def test_records_are_one_batch_of_one_request() -> None:
    broker = FakeBroker()
    assert write(broker) == 11
    (request,) = broker.requests
    assert (request.acks, request.transactional_id, request.topic_data[0].name) == (-1, None, "t")
    (partition,) = request.topic_data[0].partition_data
    assert partition.index == 2
    data = bytes(partition.records)
    (head,) = heads(data)
    assert (head.base_offset, head.last_offset, head.leader_epoch, head.timestamp_ms) == (0, 2, -1, 7)
    assert is_intact(data, head)
    assert [(record.key, record.value) for record in records(data, head)] == [(b"k", value) for value in VALUES]


def test_request_can_be_sent() -> None:
    broker = FakeBroker()
    write(broker, acks=1)
    frame = codec.encode_request(broker.requests[0], correlation_id=1, client_id="test")
    received = codec.decode_request(frame[4:])
    assert (received.api_key, received.api_version, received.request) == (PRODUCE, VERSION, broker.requests[0])


def test_refused_batch_is_a_peer_failure() -> None:
    with pytest.raises(PeerFailure, match="writing 3 records of t-2: not_leader_or_follower"):
        write(FakeBroker(error_code=6))
