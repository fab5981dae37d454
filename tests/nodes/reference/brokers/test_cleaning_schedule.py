"""A compaction that is under way while its log changes harms nobody; one that is not disturbed is noted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from nodes.reference.brokers.cleaning import Cleaning, Intervals
from nodes.reference.brokers.log_store import LogStore
from nodes.reference.core.partitions.log_config import LogConfig
from nodes.reference.core.partitions.messages import TopicPartition
from nodes.wire.batches import Record, encode_batch

PARTITION = TopicPartition("t", 0)
BATCHES = 400
COMPACTED = LogConfig(is_deleted=False, is_compacted=True, segment_bytes=1_000)


def filled(folder: Path) -> LogStore:
    """A store with a log of many segments, in which one of ten keys is the latest."""
    store = LogStore(folder, lambda _topic: COMPACTED)
    log = store.open(PARTITION)
    for number in range(BATCHES):
        log.append_as_leader(encode_batch([Record(b"%d" % (number % 10), b"x" * 50)], 0, -1, number), 1)
    return store


async def compacted_while(store: LogStore, change: Callable[[], object]) -> list[Exception]:
    """Begin a compaction, change something while it reads, and wait for its end; returns the failures."""
    failures: list[Exception] = []
    cleaning = Cleaning(store, Intervals(retention_ms=1 << 40, cleaner_ms=0), lambda _: None, failures.append)
    cleaning.begin({PARTITION: BATCHES})
    await asyncio.sleep(0)  # the task has begun, and its thread reads
    change()
    await cleaning.close()
    return failures


def test_a_compaction_is_noted_in_the_checkpoint(tmp_path: Path) -> None:
    store = filled(tmp_path)
    size = store.sizes()[PARTITION]
    assert asyncio.run(compacted_while(store, lambda: None)) == []
    last = store.open_logs[PARTITION].extents()[-1]
    assert store.cleaned.get(PARTITION) == last.base_offset
    assert store.sizes()[PARTITION] < size / 10
    store.close()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda store: store.remove(PARTITION), id="the log is removed"),
        pytest.param(lambda store: store.open_logs[PARTITION].truncate(10), id="the log is truncated"),
        pytest.param(lambda store: store.open_logs[PARTITION].advance_start(BATCHES - 1), id="segments are deleted"),
    ],
)
def test_a_log_that_changes_is_not_compacted(tmp_path: Path, change: Callable[[LogStore], object]) -> None:
    store = filled(tmp_path)
    assert asyncio.run(compacted_while(store, lambda: change(store))) == []
    assert store.cleaned.get(PARTITION) == 0
    assert not list(tmp_path.glob("t-0/cleaned*"))
    store.close()
