"""The Kafka metadata records that the reference writes and reads: ConfigRecord and NoOpRecord.

A metadata record has no key. Its value is a frame version (1), the record's api key and version as unsigned varints,
then the record in Kafka's flexible encoding (KIP-631, metadata/src/main/resources). So a real Kafka node can follow a
reference leader, and the reference reads a real leader's configs.

Contains encoding and decoding. The effect of a record is in registers.py.
"""

from __future__ import annotations

from harness.model import PeerFailure
from nodes.reference.core.messages import Change
from nodes.wire.batches import Record
from nodes.wire.varints import read_varint, varint

FRAME_VERSION = 1
CONFIG_RECORD = 4
NO_OP_RECORD = 20
CLIENT_METRICS = 16
_NO_TAGS = b"\x00"
_CONFIG_HEADER = bytes([FRAME_VERSION, CONFIG_RECORD, 0])

NO_OP = Record(None, bytes([FRAME_VERSION, NO_OP_RECORD, 0]) + _NO_TAGS)
"""The record that an idle leader appends so that the high watermark advances without load (KIP-835)."""


def encode_config(change: Change) -> Record:
    """A ConfigRecord version 0 for a CLIENT_METRICS resource."""
    strings = _string(change.resource) + _string(change.name) + _string(change.value)
    return Record(None, _CONFIG_HEADER + bytes([CLIENT_METRICS]) + strings + _NO_TAGS)


def decode_config(record: Record) -> Change | None:
    """The change in a ConfigRecord for a CLIENT_METRICS resource; None for any other record.

    Raises PeerFailure for a truncated ConfigRecord.
    """
    value = record.value
    if record.key is not None or value is None or not value.startswith(_CONFIG_HEADER):
        return None
    position = len(_CONFIG_HEADER)
    if value[position : position + 1] != bytes([CLIENT_METRICS]):
        return None
    resource, position = _read_string(value, position + 1)
    name, position = _read_string(value, position)
    text, _ = _read_string(value, position)
    return Change(resource or "", name or "", text)


def _string(text: str | None) -> bytes:
    """A compact string: its length plus one as a varint, 0 for null, then UTF-8."""
    if text is None:
        return varint(0)
    data = text.encode()
    return varint(len(data) + 1) + data


def _read_string(data: bytes, position: int) -> tuple[str | None, int]:
    try:
        length, position = read_varint(data, position)
    except IndexError as error:
        message = f"reading a ConfigRecord: expected a varint, the record ends after {len(data)} bytes"
        raise PeerFailure(message) from error
    if length == 0:
        return None, position
    end = position + length - 1
    if end > len(data):
        expected, found = length - 1, len(data) - position
        raise PeerFailure(f"reading a ConfigRecord: expected a string of {expected} bytes, found {found}")
    return data[position:end].decode(), end
