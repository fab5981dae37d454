"""What compaction keeps: literal logs, and random ones beside a plain model."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.reference.core.partitions.compaction import Cleanable, Latest, cleanable, compacted
from nodes.reference.core.partitions.log_config import LogConfig
from nodes.reference.core.partitions.retention import Extent
from nodes.wire.batches import Producer, Record, encode_batch, heads, intact_length, records
from nodes.wire.raw_records import raw_records

COMPACTED = LogConfig(is_deleted=False, is_compacted=True)
EXTENTS = [Extent(0, 10, 100, 0, 1000), Extent(10, 20, 100, 1000, 2000), Extent(20, 25, 100, 2000, 3000)]
ALL = Cleanable(0, 0, 100, tombstones_before_ms=0)

Pair = tuple[bytes | None, bytes | None]


def batch(offset: int, *pairs: Pair, time_ms: int = 0, producer: Producer | None = None) -> bytes:
    return encode_batch([Record(*pair) for pair in pairs], offset, 1, time_ms, producer=producer or Producer())


def compact(wanted: Cleanable, *batches: bytes, dirty: Sequence[bytes] | None = None) -> list[tuple[int, bytes | None]]:
    """The offsets and keys of what is kept of a log, whose dirty part is all of it unless it is given."""
    log = [(data, next(heads(data))) for data in batches]
    latest = Latest.of([(data, next(heads(data))) for data in (batches if dirty is None else dirty)])
    kept = b"".join(compacted(data, head, latest, wanted) for data, head in log)
    assert intact_length(kept) == len(kept)
    return [(each.offset, each.key) for head in heads(kept) for each in raw_records(kept, head)]


def test_the_latest_record_of_each_key_stays() -> None:
    assert compact(ALL, batch(0, (b"a", b"1"), (b"b", b"1")), batch(2, (b"a", b"2"))) == [(1, b"b"), (2, b"a")]


def test_a_batch_keeps_its_offsets_and_times_when_it_loses_records() -> None:
    data = batch(5, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), time_ms=77)
    kept = compacted(data, next(heads(data)), Latest.of([(data, next(heads(data)))]), ALL)
    head = next(heads(kept))
    assert (head.base_offset, head.last_offset, head.record_count, head.max_timestamp_ms) == (5, 7, 2, 77)
    assert records(kept, head) == [Record(b"b", b"1"), Record(b"a", b"2")]


def test_records_without_a_key_go() -> None:
    assert compact(ALL, batch(0, (None, b"1")), batch(1, (b"a", b"1"))) == [(1, b"a")]


def test_a_tombstone_stays_until_it_is_clean_and_old() -> None:
    log = batch(0, (b"a", None), time_ms=100), batch(1, (b"b", b"1"), time_ms=100)
    assert compact(Cleanable(0, 0, 9, 101), *log) == [(0, b"a"), (1, b"b")]
    assert compact(Cleanable(0, 1, 9, 100), *log, dirty=log[1:]) == [(0, b"a"), (1, b"b")]
    assert compact(Cleanable(0, 1, 9, 101), *log, dirty=log[1:]) == [(1, b"b")]


def test_the_last_batch_of_a_producer_stays_as_an_empty_one() -> None:
    """A producer that sends a batch again is still known (KIP-98)."""
    first = batch(0, (b"a", b"1"), producer=Producer(7, 0, 0))
    second = batch(1, (b"a", b"2"), producer=Producer(7, 0, 1))
    third = batch(2, (b"a", b"3"))
    latest = Latest.of([(data, next(heads(data))) for data in (first, second, third)])
    kept = b"".join(compacted(data, next(heads(data)), latest, ALL) for data in (first, second, third))
    assert [(head.base_offset, head.record_count, head.base_sequence) for head in heads(kept)] == [
        (1, 0, 1),
        (2, 1, -1),
    ]


def test_control_batches_stay() -> None:
    data = encode_batch([Record(b"a", b"1")], 0, 1, 0, is_control=True)
    assert compact(ALL, data, batch(1, (b"a", b"2"))) == [(0, b"a"), (1, b"a")]


@given(
    st.lists(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.binary(max_size=3)), min_size=1), max_size=9),
    st.data(),
)
def test_readers_from_the_beginning_get_the_same_values(log: list[list[Pair]], data: st.DataObject) -> None:
    batches, offset = [], 0
    for pairs in log:
        batches.append(batch(offset, *pairs))
        offset += len(pairs)
    dirty = data.draw(st.integers(0, len(batches)))
    pairs = [pair for pairs in log for pair in pairs]
    kept = compact(ALL, *batches, dirty=batches[dirty:])
    # The latest record of each key is there, and in the same place.
    assert {key: at for at, key in kept} == {key: at for at, (key, _) in enumerate(pairs)}
    # Of the keys that the dirty part has, nothing else is.
    in_dirty = {key for pairs in log[dirty:] for key, _ in pairs}
    assert sorted(key for _, key in kept if key in in_dirty) == sorted(in_dirty)


@pytest.mark.parametrize(
    ("config", "cleaned_to", "high_watermark", "now_ms", "expected"),
    [
        pytest.param(COMPACTED, 0, 25, 3000, (0, 20), id="all but the active segment"),
        pytest.param(COMPACTED, 20, 25, 3000, None, id="nothing is dirty"),
        pytest.param(COMPACTED, 10, 25, 3000, None, id="half is dirty: not more than the ratio"),
        pytest.param(COMPACTED, 0, 19, 3000, (0, 10), id="what is not committed stays"),
        pytest.param(COMPACTED, 99, 25, 3000, (0, 20), id="a checkpoint beyond the log is not trusted"),
        pytest.param(LogConfig(), 0, 25, 3000, None, id="only deleted"),
        pytest.param(
            LogConfig(is_compacted=True, max_compaction_lag_ms=500), 10, 25, 1501, (10, 20), id="a record is too old"
        ),
        pytest.param(LogConfig(is_compacted=True, min_compaction_lag_ms=1500), 0, 25, 3000, (0, 10), id="too new"),
        pytest.param(LogConfig(is_compacted=True, min_cleanable_ratio=0.4), 10, 25, 3000, (10, 20), id="low ratio"),
    ],
)
def test_a_log_is_compacted_when_enough_of_it_is_dirty(
    config: LogConfig, cleaned_to: int, high_watermark: int, now_ms: int, expected: tuple[int, int] | None
) -> None:
    wanted = cleanable(EXTENTS, cleaned_to, config, high_watermark, now_ms)
    assert (None if wanted is None else (wanted.dirty, wanted.end)) == expected
