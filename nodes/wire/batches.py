"""Kafka's record batches (format v2), on disk and in Fetch responses, and the messages of formats v0 and v1 before it.

Contains pure functions between bytes and batches. Does not contain files, sockets or clocks.

A batch is a header of 61 bytes followed by its records; a log is a sequence of batches. Headers are read without
decoding the records, which is fast for large logs. Reading stops at a torn batch or, in intact_heads, at a batch with
a wrong checksum.

    data = encode_batch([Record(b"k", b"v")], base_offset=5, leader_epoch=2, timestamp_ms=0)
    [head] = heads(data)
    records(data, head)                       # [Record(key=b"k", value=b"v")]

The records of compressed batches are not decoded. A message of v0 or v1, which brokers write if
`log.message.format.version` is below 0.11, is a batch of one record without leader epoch and producer; only
heads_of_any_format reads them. Sources: KIP-98 (message format), KIP-32 (v1), DefaultRecordBatch and LegacyRecord in
Kafka.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from crc32c import crc32c

from harness.model import PeerFailure
from nodes.wire.varints import read_zigzag, varint

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_COVERS_FROM = 21
_LENGTH_COVERS_FROM = 12
_MESSAGE = struct.Struct(">qiIbb")
_MESSAGE_CRC_COVERS_FROM = 16
_TIMESTAMP = struct.Struct(">q")
_MAGIC_AT = 16
_CONTROL = 0x20
_CODEC = 0x07
_BASE_AND_EPOCH = struct.Struct(">qii")
_COUNT = struct.Struct(">i")

HEADER_BYTES = _HEADER.size
assert HEADER_BYTES == 61


@dataclass(frozen=True, slots=True)
class Record:
    """Key and value of one record; its offset follows from its position in the batch."""

    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Producer:
    """An idempotent producer's id and epoch, and the sequence number of its batch's first record (KIP-98)."""

    producer_id: int = -1
    epoch: int = -1
    base_sequence: int = -1


NO_PRODUCER = Producer()


@dataclass(frozen=True, slots=True)
class BatchHead:
    """A batch's header, and the batch's position (start, end) in the data.

    producer_id, producer_epoch and base_sequence are -1 without an idempotent producer. max_timestamp_ms is the latest
    of its records' times.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    is_control: bool
    is_compressed: bool
    timestamp_ms: int
    crc: int
    record_count: int
    start: int
    end: int
    magic: int = 2
    max_timestamp_ms: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


def encode_batch(
    records: Sequence[Record],
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    is_control: bool = False,
    producer: Producer = NO_PRODUCER,
) -> bytes:
    """One uncompressed batch; its records have consecutive offsets and the same timestamp."""
    assert records, "a batch has at least one record"
    payload = b"".join(_encode_record(record, delta) for delta, record in enumerate(records))
    attributes, last_delta = (_CONTROL if is_control else 0), len(records) - 1
    sender = producer.producer_id, producer.epoch, producer.base_sequence
    tail = (attributes, last_delta, timestamp_ms, timestamp_ms, *sender, len(records))
    covered = struct.pack(">hiqqqhii", *tail) + payload
    length = _CRC_COVERS_FROM - _LENGTH_COVERS_FROM + len(covered)
    return struct.pack(">qiibI", base_offset, length, leader_epoch, 2, crc32c(covered)) + covered


def heads(data: bytes) -> Iterator[BatchHead]:
    """The headers of the complete batches at the beginning of data; stops at a torn or invalid batch."""
    start = 0
    while (head := _batch_at(data, start)) is not None:
        yield head
        start = head.end


def heads_of_any_format(data: bytes) -> Iterator[BatchHead]:
    """As heads, with messages of v0 and v1 too.

    A compressed message contains others, of which only the last offset is known. It counts as following what is before.
    """
    start = expected = 0
    while start + _MAGIC_AT < len(data):
        head = _batch_at(data, start) if data[start + _MAGIC_AT] == 2 else _message_at(data, start)
        if head is None:
            return
        if head.magic < 2 and head.is_compressed:
            head = replace(head, base_offset=min(expected, head.last_offset))
        yield head
        start, expected = head.end, head.last_offset + 1


def _batch_at(data: bytes, start: int) -> BatchHead | None:
    """The head of the complete batch that begins here; None if there is none."""
    if start + HEADER_BYTES <= len(data):
        fields = _HEADER.unpack_from(data, start)
        base, length, epoch, magic, crc, attributes, last_delta, first_ms, max_ms, *sender, count = fields
        end = start + _LENGTH_COVERS_FROM + length
        if magic != 2 or length < HEADER_BYTES - _LENGTH_COVERS_FROM or end > len(data):
            return None
        control, compressed = attributes & _CONTROL != 0, attributes & _CODEC != 0
        last, where = base + last_delta, (start, end, magic)
        return BatchHead(base, last, epoch, control, compressed, first_ms, crc, count, *where, max_ms, *sender)
    return None


def _message_at(data: bytes, start: int) -> BatchHead | None:
    """The head of the complete message of v0 or v1 that begins here; None if there is none."""
    if start + _MESSAGE.size > len(data):
        return None
    offset, length, crc, magic, attributes = _MESSAGE.unpack_from(data, start)
    end, content = start + _LENGTH_COVERS_FROM + length, start + _MESSAGE.size
    if magic not in (0, 1) or end > len(data) or content + magic * _TIMESTAMP.size > end:
        return None
    timestamp_ms = _TIMESTAMP.unpack_from(data, content)[0] if magic else -1
    return BatchHead(offset, offset, -1, False, bool(attributes & _CODEC), timestamp_ms, crc, 1, start, end, magic)


def is_intact(data: bytes, head: BatchHead) -> bool:
    """Whether the batch's checksum is right; it does not cover base offset, length and leader epoch."""
    if head.magic < 2:
        return zlib.crc32(memoryview(data)[head.start + _MESSAGE_CRC_COVERS_FROM : head.end]) == head.crc
    return crc32c(memoryview(data)[head.start + _CRC_COVERS_FROM : head.end]) == head.crc


def intact_heads(data: bytes) -> Iterator[BatchHead]:
    """As heads, but also stops at the first batch with a wrong checksum."""
    for head in heads(data):
        if not is_intact(data, head):
            return
        yield head


def intact_length(data: bytes) -> int:
    """The length in bytes of the intact batches at the beginning of data; the rest is a torn tail."""
    length = 0
    for head in intact_heads(data):
        length = head.end
    return length


def length_below(data: bytes, offset: int) -> int:
    """The bytes of the batches that end at or before this offset."""
    return max((head.end for head in heads(data) if head.last_offset < offset), default=0)


def stamped(data: bytes, head: BatchHead, base_offset: int, leader_epoch: int) -> bytes:
    """The batch with another base offset and leader epoch, as a leader appends it; the checksum covers neither."""
    length = head.end - head.start - _LENGTH_COVERS_FROM
    return _BASE_AND_EPOCH.pack(base_offset, length, leader_epoch) + data[head.start + _MAGIC_AT : head.end]


def with_records(data: bytes, head: BatchHead, kept: Sequence[bytes]) -> bytes:
    """The batch with these of its records, as bytes; its offsets, times and producer stay, as after a compaction."""
    payload = b"".join(kept)
    before_count = data[head.start + _CRC_COVERS_FROM : head.start + HEADER_BYTES - _COUNT.size]
    covered = before_count + _COUNT.pack(len(kept)) + payload
    length = _CRC_COVERS_FROM - _LENGTH_COVERS_FROM + len(covered)
    return struct.pack(">qiibI", head.base_offset, length, head.leader_epoch, 2, crc32c(covered)) + covered


def records(data: bytes, head: BatchHead) -> list[Record]:
    """The records of one uncompressed batch. Raises PeerFailure if it is compressed or its records are truncated."""
    if head.is_compressed:
        raise PeerFailure(f"reading the batch at offset {head.base_offset}: expected no compression, it is compressed")
    try:
        return [_message(data, head)] if head.magic < 2 else list(_decode_records(data, head))
    except (IndexError, struct.error) as error:
        message = f"reading the batch at offset {head.base_offset}: its records are truncated"
        raise PeerFailure(message) from error


def timestamps_ms(data: bytes, head: BatchHead) -> list[tuple[int, int]]:
    """Offset and time of each record of a batch of v2. A compressed batch has one entry: its base and its latest time.

    Raises PeerFailure if its records are truncated.
    """
    if head.is_compressed:
        return [(head.base_offset, head.max_timestamp_ms)]
    try:
        return list(_decode_timestamps(data, head))
    except IndexError as error:
        raise PeerFailure(f"reading the batch at offset {head.base_offset}: its records are truncated") from error


def _decode_timestamps(data: bytes, head: BatchHead) -> Iterator[tuple[int, int]]:
    position = head.start + HEADER_BYTES
    for _ in range(head.record_count):
        length, position = read_zigzag(data, position)
        time_delta_ms, after_time = read_zigzag(data, position + 1)
        offset_delta, _ = read_zigzag(data, after_time)
        yield head.base_offset + offset_delta, head.timestamp_ms + time_delta_ms
        position += length


def _decode_records(data: bytes, head: BatchHead) -> Iterator[Record]:
    position = head.start + HEADER_BYTES
    for _ in range(head.record_count):
        length, position = read_zigzag(data, position)
        end = position + length
        _, position = read_zigzag(data, position + 1)
        _, position = read_zigzag(data, position)
        key, position = _read_bytes(data, position)
        value, _ = _read_bytes(data, position)
        yield Record(key, value)
        position = end


def _message(data: bytes, head: BatchHead) -> Record:
    """The record of a message of v0 or v1: key and value, each after its length in four bytes, -1 for none."""
    position = head.start + _MESSAGE.size + head.magic * _TIMESTAMP.size
    fields: list[bytes | None] = []
    for _ in ("key", "value"):
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        if position + max(0, length) > head.end:
            raise IndexError(position)
        fields.append(data[position : position + length] if length >= 0 else None)
        position += max(0, length)
    return Record(*fields)


def _encode_record(record: Record, offset_delta: int) -> bytes:
    no_attributes, no_headers, same_time = b"\0", b"\0", b"\0"
    body = no_attributes + same_time + _zigzag(offset_delta) + _prefixed(record.key) + _prefixed(record.value)
    return _zigzag(len(body) + len(no_headers)) + body + no_headers


def _prefixed(value: bytes | None) -> bytes:
    return _zigzag(-1) if value is None else _zigzag(len(value)) + value


def _zigzag(number: int) -> bytes:
    return varint((number << 1) ^ (number >> 63))


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_zigzag(data, position)
    if length < 0:
        return None, position
    return data[position : position + length], position + length
