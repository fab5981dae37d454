"""Frames: encoding and decoding in every version that the reference quorum uses; invalid frames are rejected."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model import PeerFailure
from nodes.wire import codec

FETCH = {
    "cluster_id": "c",
    "replica_id": 3,
    "replica_state": {"replica_id": 3},
    "max_wait": 500,
    "min_bytes": 0,
    "topics": [{"topic": "t", "topic_id": uuid.UUID(int=1), "partitions": [{
        "partition": 0, "current_leader_epoch": 2, "fetch_offset": 7, "last_fetched_epoch": 1,
        "partition_max_bytes": 1024,
    }]}],
    "forgotten_topics_data": [],
}  # fmt: skip
VOTE = {
    "cluster_id": None,
    "voter_id": 2,
    "topics": [{"topic_name": "t", "partitions": [{
        "partition_index": 0, "replica_epoch": 4, "replica_id": 1, "replica_directory_id": None,
        "voter_directory_id": None, "last_offset_epoch": 3, "last_offset": 9, "pre_vote": True,
    }]}],
}  # fmt: skip
CASES = [(codec.VOTE, v, VOTE) for v in range(3)] + [(codec.FETCH, v, FETCH) for v in range(12, 18)]


@pytest.mark.parametrize(("api_key", "version", "values"), CASES, ids=lambda value: str(value)[:12])
def test_encoded_request_is_decoded(api_key: int, version: int, values: dict[str, Any]) -> None:
    request = codec.build(api_key, version, "request", values)
    frame = codec.encode_request(request, correlation_id=9, client_id="me")
    assert codec.frame_length(frame[:4]) == len(frame) - 4
    assert codec.decode_request(frame[4:]) == codec.RequestFrame(api_key, version, 9, "me", request)


def test_fields_that_a_version_does_not_have_are_ignored() -> None:
    assert not hasattr(codec.build(codec.VOTE, 1, "request", VOTE).topics[0].partitions[0], "pre_vote")
    assert codec.build(codec.VOTE, 2, "request", VOTE).topics[0].partitions[0].pre_vote is True


@pytest.mark.parametrize("length", [0, 7, 8, 20, 40])
def test_truncated_request_is_rejected(length: int) -> None:
    frame = codec.encode_request(codec.build(codec.VOTE, 2, "request", VOTE), 9, "me")[4:]
    with pytest.raises(PeerFailure, match="decoding a request"):
        codec.decode_request(frame[:length])


def test_unsupported_version_names_the_request() -> None:
    with pytest.raises(codec.UnsupportedVersion) as caught:
        codec.decode_request(b"\x00\x34\x00\x63\x00\x00\x00\x07")
    assert (caught.value.api_key, caught.value.api_version, caught.value.correlation_id) == (codec.VOTE, 99, 7)


@pytest.mark.parametrize("length", [-1, 0, codec.FRAME_BYTES_MAX + 1])
def test_frame_length_out_of_range_is_rejected(length: int) -> None:
    with pytest.raises(PeerFailure, match="reading a frame"):
        codec.frame_length(length.to_bytes(4, "big", signed=True))


def test_unsupported_api_versions_response_is_decoded_in_version_0() -> None:
    """KIP-511: a peer that does not support the request's version responds in version 0."""
    keys = [{"api_key": 1, "min_version": 0, "max_version": 5}]
    values = {"error_code": codec.ErrorCode.unsupported_version, "api_keys": keys}
    frame = codec.encode_response(codec.build(codec.API_VERSIONS, 0, "response", values), 3)
    expected = codec.message_type(codec.API_VERSIONS, 4, "response")
    correlation_id, response = codec.decode_response(expected, frame[4:])
    assert (correlation_id, response.error_code.name) == (3, "unsupported_version")
    assert [(key.api_key, key.max_version) for key in response.api_keys] == [(1, 5)]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80))
def test_random_bytes_raise_nothing_but_peer_failure(frame: bytes) -> None:
    try:
        decoded = codec.decode_request(b"\x00\x34\x00\x02" + frame)
    except PeerFailure:
        return
    assert decoded.api_key == codec.VOTE
