"""Bytes to frames, and the little that is read of every frame.

What may live here: pure functions and the splitter's buffer. What may not: sockets, clocks, rules.

A frame is kept whole, with its length in front, so that what is not touched is passed on as it came.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from harness.model import PeerFailure
from nodes.wire import codec

_LENGTH = struct.Struct(">i")
_REQUEST_HEAD = struct.Struct(">ihhi")
_RESPONSE_HEAD = struct.Struct(">ii")

PREFIX_BYTES = _LENGTH.size


class FrameSplitter:
    """One direction of a connection, cut into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()  # the beginning of a frame that has not come whole

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole now that data has come. Raises PeerFailure for a length that cannot be."""
        if not self._rest and len(data) > PREFIX_BYTES and _LENGTH.unpack_from(data)[0] + PREFIX_BYTES == len(data):
            return [data]  # by far the most frequent case, without a copy
        self._rest += data
        frames, start = [], 0
        while (end := self._end(start)) is not None:
            frames.append(bytes(self._rest[start:end]))
            start = end
        del self._rest[:start]
        return frames

    def _end(self, start: int) -> int | None:
        """Where the frame that begins at start ends; None where it has not come whole."""
        body = start + PREFIX_BYTES
        if body > len(self._rest):
            return None
        end = body + codec.frame_length(bytes(self._rest[start:body]))
        return end if end <= len(self._rest) else None


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The first fields of every request."""

    api_key: int
    api_version: int
    correlation_id: int


def request_head(frame: bytes) -> RequestHead:
    """Raises PeerFailure where the frame is shorter than any request."""
    if len(frame) < _REQUEST_HEAD.size:
        raise PeerFailure(f"reading a request: a frame of {len(frame)} bytes is shorter than any header")
    _, api_key, api_version, correlation_id = _REQUEST_HEAD.unpack_from(frame)
    return RequestHead(api_key, api_version, correlation_id)


def response_correlation_id(frame: bytes) -> int:
    """Raises PeerFailure where the frame is shorter than any response."""
    if len(frame) < _RESPONSE_HEAD.size:
        raise PeerFailure(f"reading a response: a frame of {len(frame)} bytes has no correlation id")
    return int(_RESPONSE_HEAD.unpack_from(frame)[1])
