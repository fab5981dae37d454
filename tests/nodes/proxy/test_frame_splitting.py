"""Frames are reassembled however the network splits the byte stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model import PeerFailure
from nodes.proxy.frames import FrameSplitter, RequestHead, request_head, response_correlation_id
from nodes.wire import codec

FRAMES = [
    codec.encode_request(codec.build(codec.API_VERSIONS, 0, "request", {}), 3, "n1"),
    b"\0\0\0\1x",
    codec.encode_request(codec.build(codec.DESCRIBE_QUORUM, 2, "request", {"topics": []}), 4, "n1"),
]
STREAM = b"".join(FRAMES)


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_frames_are_complete_if_the_stream_is_split_in_two(cut: int) -> None:
    splitter = FrameSplitter()
    assert splitter.feed(STREAM[:cut]) + splitter.feed(STREAM[cut:]) == FRAMES


def test_frames_are_complete_if_bytes_arrive_one_by_one() -> None:
    splitter = FrameSplitter()
    assert [frame for byte in STREAM for frame in splitter.feed(bytes([byte]))] == FRAMES


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.data())
def test_frames_are_complete_in_any_pieces(bodies: list[bytes], data: st.DataObject) -> None:
    frames = [len(body).to_bytes(4, "big") + body for body in bodies]
    rest, splitter, out = b"".join(frames), FrameSplitter(), []
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        out += splitter.feed(rest[:size])
        rest = rest[size:]
    assert out == frames


@pytest.mark.parametrize("prefix", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"GET / HTTP/1.1"])
def test_an_invalid_length_is_rejected(prefix: bytes) -> None:
    with pytest.raises(PeerFailure, match="reading a frame: expected a length of"):
        FrameSplitter().feed(prefix)


def test_headers_are_read_and_too_short_frames_are_rejected() -> None:
    assert request_head(FRAMES[0]) == RequestHead(codec.API_VERSIONS, 0, 3)
    assert response_correlation_id(b"\0\0\0\5\0\0\0\7x") == 7
    with pytest.raises(PeerFailure, match="too short for a header"):
        request_head(FRAMES[1])
    with pytest.raises(PeerFailure, match="has no correlation id"):
        response_correlation_id(FRAMES[1])
