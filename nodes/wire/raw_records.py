"""The records of a batch as bytes, so that a batch can be written again with some of them.

    [record.key for record in raw_records(data, head)]

Contains a reader. Whole batches are batches.py's. Source: KIP-98 (message format).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.model import PeerFailure
from nodes.wire.batches import HEADER_BYTES, BatchHead
from nodes.wire.varints import read_zigzag


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record: its offset, its key, whether it has a value, and its bytes with their length."""

    offset: int
    key: bytes | None
    has_value: bool
    data: bytes


def raw_records(data: bytes, head: BatchHead) -> Iterator[RawRecord]:
    """The records of one uncompressed batch of v2. Raises PeerFailure if they are truncated."""
    position = head.start + HEADER_BYTES
    try:
        for _ in range(head.record_count):
            start = position
            length, position = read_zigzag(data, position)
            end = position + length
            _, position = read_zigzag(data, position + 1)
            offset_delta, position = read_zigzag(data, position)
            key_length, position = read_zigzag(data, position)
            key = data[position : position + key_length] if key_length >= 0 else None
            value_length, _ = read_zigzag(data, position + max(0, key_length))
            yield RawRecord(head.base_offset + offset_delta, key, value_length >= 0, data[start:end])
            position = end
    except IndexError as error:
        raise PeerFailure(f"reading the batch at offset {head.base_offset}: its records are truncated") from error
