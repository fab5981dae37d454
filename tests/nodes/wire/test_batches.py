"""Record batches: encoded as Kafka reads them, read up to the first torn or corrupt one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from harness.model import PeerFailure
from nodes.wire.batches import HEADER_BYTES, Record, encode_batch, heads, intact_length, is_intact, records

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
