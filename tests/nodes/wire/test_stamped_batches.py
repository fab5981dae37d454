"""Batches as a leader appends them: offsets, epoch, producer and times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from nodes.wire.batches import Producer, Record, encode_batch, heads, is_intact, records, stamped, timestamps_ms

WRITTEN = [Record(b"k", b"v"), Record(None, b"w"), Record(b"", None)]


@given(st.integers(0, 2**40), st.integers(0, 2**31 - 1))
def test_a_stamped_batch_has_its_offset_and_epoch_and_is_intact(base: int, epoch: int) -> None:
    data = b"".join(encode_batch(WRITTEN, 0, -1, 5, producer=Producer(9, 1, 7)) for _ in range(2))
    for head in heads(data):
        again = stamped(data, head, base, epoch)
        [own] = heads(again)
        assert (own.base_offset, own.last_offset, own.leader_epoch) == (base, base + 2, epoch)
        assert (own.producer_id, own.producer_epoch, own.base_sequence) == (9, 1, 7)
        assert is_intact(again, own)
        assert records(again, own) == WRITTEN


def test_kio_reads_the_same_producer() -> None:
    batch = read_batch(encode_batch(WRITTEN, 3, 4, 5, producer=Producer(9, 1, 7)), 0)[0]
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 1, 7)


def test_a_batch_without_a_producer_says_so() -> None:
    [head] = heads(encode_batch(WRITTEN, 3, 4, 5))
    assert (head.producer_id, head.producer_epoch, head.base_sequence) == (-1, -1, -1)


def test_each_record_has_its_offset_and_time() -> None:
    data = encode_batch(WRITTEN, 10, 0, 77)
    [head] = heads(data)
    assert timestamps_ms(data, head) == [(10, 77), (11, 77), (12, 77)]
    assert head.max_timestamp_ms == 77
