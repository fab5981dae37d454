"""The log in memory does what every log must, and loses what was not flushed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodes.reference.core.partitions.epochs import EpochStart
from nodes.reference.core.partitions.log import ReplicaLog
from nodes.reference.core.partitions.memory_log import MemoryLog
from tests.support.nodes.replica_log_cases import CASES, batch, extents


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_log_in_memory(case: Callable[[ReplicaLog], None]) -> None:
    case(MemoryLog())


def test_a_crash_loses_what_was_not_flushed() -> None:
    log = MemoryLog()
    log.append_as_follower(batch(0, 4, 1))
    log.flush()
    log.append_as_follower(batch(5, 9, 2))
    log.crash()
    assert (log.end_offset, extents(log), log.epochs.starts) == (5, [(0, 4)], (EpochStart(1, 0),))


def test_what_was_truncated_after_a_flush_does_not_come_back() -> None:
    log = MemoryLog()
    log.append_as_follower(batch(0, 4, 1) + batch(5, 9, 1))
    log.flush()
    log.truncate(5)
    log.append_as_follower(batch(5, 6, 2))
    log.crash()
    assert extents(log) == [(0, 4)]


def test_a_damaged_batch_is_never_appended() -> None:
    data = batch(0, 4, 1)
    with pytest.raises(AssertionError, match="only intact batches"):
        MemoryLog().append_as_follower(data[:-1] + b"\xff")


def test_a_batch_before_the_end_is_never_appended() -> None:
    log = MemoryLog()
    log.append_as_follower(batch(0, 4, 1))
    with pytest.raises(AssertionError, match="a batch at 3 after 5"):
        log.append_as_follower(batch(3, 6, 1))
