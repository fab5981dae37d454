"""Splits a byte stream into frames and reads their headers.

Contains pure functions and the splitter's buffer. Does not contain sockets, clocks or rules. A frame keeps its length
prefix, so an unmodified frame is forwarded byte for byte.
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
    """Splits one direction of a connection into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()  # the start of an incomplete frame

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that data completes. Raises PeerFailure for an invalid length."""
        if not self._rest and len(data) > PREFIX_BYTES and _LENGTH.unpack_from(data)[0] + PREFIX_BYTES == len(data):
            return [data]  # the most frequent case, without a copy
        self._rest += data
        frames, start = [], 0
        while (end := self._end(start)) is not None:
            frames.append(bytes(self._rest[start:end]))
            start = end
        del self._rest[:start]
        return frames

    def _end(self, start: int) -> int | None:
        """The end of the frame that begins at start; None if it is incomplete."""
        body = start + PREFIX_BYTES
        if body > len(self._rest):
            return None
        end = body + codec.frame_length(bytes(self._rest[start:body]))
        return end if end <= len(self._rest) else None


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The header fields that every request has."""

    api_key: int
    api_version: int
    correlation_id: int


def request_head(frame: bytes) -> RequestHead:
    """Read a request's header. Raises PeerFailure if the frame is too short."""
    if len(frame) < _REQUEST_HEAD.size:
        raise PeerFailure(f"reading a request: a frame of {len(frame)} bytes is too short for a header")
    _, api_key, api_version, correlation_id = _REQUEST_HEAD.unpack_from(frame)
    return RequestHead(api_key, api_version, correlation_id)


def response_correlation_id(frame: bytes) -> int:
    """Read a response's correlation id. Raises PeerFailure if the frame is too short."""
    if len(frame) < _RESPONSE_HEAD.size:
        raise PeerFailure(f"reading a response: a frame of {len(frame)} bytes has no correlation id")
    return int(_RESPONSE_HEAD.unpack_from(frame)[1])
