"""The frame of the metadata log's records, and the registers in them.

A metadata record has no key. Its value is a frame version (1), the record's api key and version as unsigned varints,
then the record in Kafka's flexible encoding (KIP-631). So a real Kafka node can follow a reference leader, and the
reference reads a real leader's configs.

Contains encoding and decoding. The schemas are in entities.py, the records' effects in image.py.
"""

from __future__ import annotations

import io
from typing import Any

from kio.serial import entity_reader, entity_writer

from harness.model import PeerFailure
from nodes.reference.core.messages import Change
from nodes.reference.core.records.entities import RECORD_TYPES, ConfigRecord, MetadataRecord
from nodes.wire.batches import Record
from nodes.wire.varints import read_varint, varint

FRAME_VERSION = 1
NO_OP_RECORD = 20
CLIENT_METRICS = 16
_NO_TAGS = b"\x00"

NO_OP = Record(None, bytes([FRAME_VERSION, NO_OP_RECORD, 0]) + _NO_TAGS)
"""The record that an idle leader appends so that the high watermark advances without load (KIP-835)."""


def encode(record: MetadataRecord) -> Record:
    """The record of the log for one of the metadata's records."""
    buffer = io.BytesIO()
    buffer.write(bytes([FRAME_VERSION]) + varint(record.__api_key__) + varint(record.__version__))
    entity: Any = type(record)
    entity_writer(entity)(buffer, record)
    return Record(None, buffer.getvalue())


def decode(record: Record) -> MetadataRecord | None:
    """The metadata's record in a record of the log; None for those that the reference does not know.

    Raises PeerFailure for a truncated one.
    """
    value = record.value
    if record.key is not None or not value or value[0] != FRAME_VERSION:
        return None
    try:
        api_key, position = read_varint(value, 1)
        version, position = read_varint(value, position)
        entity = RECORD_TYPES.get((api_key, version))
        return None if entity is None else entity_reader(entity)(value, position)[0]
    except Exception as error:  # kio's readers raise their own errors on truncated bytes, and those of unicode
        name = f"record {value[1]}" if len(value) > 1 else "record"
        message = f"reading a metadata {name}: {len(value)} bytes do not follow its schema ({error})"
        raise PeerFailure(message) from error


def encode_config(change: Change) -> Record:
    """A ConfigRecord for a CLIENT_METRICS resource."""
    return encode(
        ConfigRecord(resource_type=CLIENT_METRICS, resource_name=change.resource, name=change.name, value=change.value)
    )
