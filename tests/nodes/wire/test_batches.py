"""Record batches: encoded as Kafka reads them, read up to the first torn or corrupt one."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from harness.model import PeerFailure
from nodes.wire.batches import (
    HEADER_BYTES,
    Record,
    encode_batch,
    heads,
    heads_of_any_format,
    intact_length,
    is_intact,
    records,
)

FIELD = st.one_of(st.none(), st.binary(max_size=200))
RECORDS = st.lists(st.builds(Record, FIELD, FIELD), min_size=1, max_size=5)


@given(RECORDS, st.integers(0, 2**40), st.integers(0, 2**31 - 1), st.booleans())
def test_encoded_records_are_decoded(written: list[Record], base: int, epoch: int, is_control: bool) -> None:
    data = encode_batch(written, base, epoch, 1_000, is_control)
    [head] = heads(data)
    assert (head.base_offset, head.last_offset, head.leader_epoch) == (base, base + len(written) - 1, epoch)
    assert (head.is_control, head.start, head.end) == (is_control, 0, len(data))
    assert is_intact(data, head)
    assert records(data, head) == written


def test_kio_decodes_the_same_batch() -> None:
    written = [Record(b"k", b"v" * 100), Record(None, b"w")]
    batch, size = read_batch(encode_batch(written, 5, 2, 1_000), 0)
    assert (batch.base_offset, batch.partition_leader_epoch, batch.last_offset_delta) == (5, 2, 1)
    assert [Record(record.key, record.value) for record in batch.records] == written
    assert size == len(encode_batch(written, 5, 2, 1_000))


@pytest.fixture(name="log")
def two_batches() -> tuple[bytes, bytes]:
    return encode_batch([Record(b"a", b"1")], 0, 1, 0), encode_batch([Record(b"b", b"2")], 1, 1, 0)


def test_torn_tail_of_any_length_is_not_intact(log: tuple[bytes, bytes]) -> None:
    first, second = log
    for length in range(len(second)):
        assert intact_length(first + second[:length]) == len(first)
    assert intact_length(first + second) == len(first) + len(second)


def test_batch_with_a_flipped_bit_is_not_intact(log: tuple[bytes, bytes]) -> None:
    first, second = log
    corrupt = bytearray(first + second)
    corrupt[len(first) + HEADER_BYTES + 3] ^= 1
    assert intact_length(bytes(corrupt)) == len(first)
    assert len(list(heads(bytes(corrupt)))) == 2


def test_zero_bytes_are_not_a_batch(log: tuple[bytes, bytes]) -> None:
    assert intact_length(log[0] + bytes(4096)) == len(log[0])


def test_compressed_batch_has_a_head_but_its_records_are_not_decoded(log: tuple[bytes, bytes]) -> None:
    compressed = bytearray(log[0])
    compressed[22] |= 1
    [head] = heads(bytes(compressed))
    with pytest.raises(PeerFailure, match="compressed"):
        records(bytes(compressed), head)


def message(offset: int, magic: int, key: bytes | None, value: bytes | None, attributes: int = 0) -> bytes:
    """A message of v0 or v1 as KIP-32 lays it out."""
    fields = b"".join(struct.pack(">i", -1 if each is None else len(each)) + (each or b"") for each in (key, value))
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", 7_000) if magic else b"") + fields
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_before_v2_are_batches_of_one_record(magic: int) -> None:
    data = message(5, magic, b"k", b"value") + message(6, magic, None, None)
    first, second = heads_of_any_format(data)
    assert (first.base_offset, first.last_offset, first.leader_epoch, first.record_count) == (5, 5, -1, 1)
    assert first.timestamp_ms == (7_000 if magic else -1)
    assert [records(data, head) for head in (first, second)] == [[Record(b"k", b"value")], [Record(None, None)]]
    assert is_intact(data, first)
    assert second.end == len(data)
    assert list(heads(data)) == []


def test_log_may_go_on_with_batches_after_messages() -> None:
    batch = encode_batch([Record(None, b"a"), Record(None, b"b")], base_offset=6, leader_epoch=3, timestamp_ms=0)
    data = message(5, 1, None, b"x") + batch
    assert [(head.base_offset, head.last_offset, head.leader_epoch) for head in heads_of_any_format(data)] == [
        (5, 5, -1),
        (6, 7, 3),
    ]


def test_compressed_message_follows_what_is_before_and_is_not_decoded() -> None:
    data = message(4, 1, None, b"x") + message(9, 1, None, b"compressed", attributes=1)
    _, last = heads_of_any_format(data)
    assert (last.base_offset, last.last_offset, last.is_compressed) == (5, 9, True)
    with pytest.raises(PeerFailure, match="expected no compression"):
        records(data, last)


def test_message_with_a_flipped_bit_is_not_intact_and_a_torn_one_is_no_message() -> None:
    data = message(5, 1, b"k", b"value")
    flipped = data[:-1] + bytes([data[-1] ^ 1])
    (head,) = heads_of_any_format(flipped)
    assert not is_intact(flipped, head)
    assert [list(heads_of_any_format(data[:length])) for length in range(len(data))] == [[]] * len(data)


def test_message_whose_lengths_are_wrong_is_a_peer_failure() -> None:
    data = message(5, 1, b"k", b"value")
    wrong = data[:26] + struct.pack(">i", 1000) + data[30:]
    (head,) = heads_of_any_format(wrong)
    with pytest.raises(PeerFailure, match="its records are truncated"):
        records(wrong, head)
