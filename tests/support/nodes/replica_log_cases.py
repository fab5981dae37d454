"""What every log of a partition must do, in memory or on a disk: cases for tests of implementations of ReplicaLog.

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
    def test_a_log_in_memory(case):
        case(MemoryLog())

Each case takes an empty log that starts at offset 0.
"""

from __future__ import annotations

from collections.abc import Callable

from nodes.reference.core.partitions.epochs import EpochStart
from nodes.reference.core.partitions.log import ReplicaLog
from nodes.wire.batches import Record, encode_batch, heads

EVERYTHING = 2**30


def batch(first: int, last: int, epoch: int) -> bytes:
    """A leader's batch with these offsets."""
    return encode_batch([Record(None, b"")] * (last - first + 1), first, epoch, 0)


def extents(log: ReplicaLog) -> list[tuple[int, int]]:
    """First and last offset of each batch."""
    return [(head.base_offset, head.last_offset) for _, head in log.batches(log.start_offset)]


def filled(log: ReplicaLog) -> ReplicaLog:
    """The log with the batches [0, 4] and [5, 9] of epoch 1 and [10, 14] of epoch 3."""
    for each in (batch(0, 4, 1), batch(5, 9, 1), batch(10, 14, 3)):
        log.append_as_follower(each)
    return log


def a_leader_gives_offsets_and_its_epoch(log: ReplicaLog) -> None:
    """Two batches of clients."""
    assert log.append_as_leader(batch(0, 2, -1), 4) == 0
    assert log.append_as_leader(batch(0, 0, -1) + batch(0, 1, -1), 4) == 3
    assert extents(log) == [(0, 2), (3, 3), (4, 5)]
    assert {head.leader_epoch for _, head in log.batches(0)} == {4}
    assert log.epochs.starts == (EpochStart(4, 0),)


def a_follower_keeps_offsets_and_epochs(log: ReplicaLog) -> None:
    """Gaps stay, as compaction leaves them."""
    filled(log).append_as_follower(batch(20, 21, 3))
    assert extents(log) == [(0, 4), (5, 9), (10, 14), (20, 21)]
    assert log.epochs.starts == (EpochStart(1, 0), EpochStart(3, 10))
    assert log.end_offset == 22


def whole_batches_are_truncated(log: ReplicaLog) -> None:
    """An offset inside a batch removes it."""
    filled(log).truncate(8)
    assert (log.end_offset, extents(log)) == (5, [(0, 4)])
    assert log.epochs.starts == (EpochStart(1, 0),)


def truncating_at_the_end_removes_an_epoch_without_records(log: ReplicaLog) -> None:
    """A leader that appended nothing."""
    filled(log).begin_epoch(7)
    assert log.epochs.latest == 7
    log.truncate(15)
    assert (log.epochs.latest, log.end_offset) == (3, 15)


def truncating_to_the_start_empties_it(log: ReplicaLog) -> None:
    """And it goes on there."""
    filled(log).truncate(0)
    assert (log.end_offset, extents(log), log.epochs.starts) == (0, [], ())
    log.append_as_follower(batch(0, 1, 2))
    assert log.end_offset == 2


def it_starts_anew_elsewhere(log: ReplicaLog) -> None:
    """After a leader whose log begins later."""
    filled(log).truncate_fully_and_start_at(50)
    assert (log.start_offset, log.end_offset, extents(log), log.epochs.starts) == (50, 50, [], ())


def its_start_advances(log: ReplicaLog) -> None:
    """A batch that contains the start stays, and the epoch begins there."""
    filled(log).advance_start(7)
    assert log.start_offset == 7
    assert next(iter(heads(log.read(7, EVERYTHING, 15)))).base_offset == 5
    assert log.epochs.starts == (EpochStart(1, 7), EpochStart(3, 10))
    log.advance_start(3)
    assert log.start_offset == 7


def a_read_begins_with_the_batch_that_contains_the_offset(log: ReplicaLog) -> None:
    """Readers skip what is before."""
    assert [head.base_offset for head in heads(filled(log).read(7, EVERYTHING, 15))] == [5, 10]


def a_read_ends_before_its_end(log: ReplicaLog) -> None:
    """No batch that is not wholly before it."""
    filled(log)
    assert [head.base_offset for head in heads(log.read(0, EVERYTHING, 12))] == [0, 5]
    assert log.read(15, EVERYTHING, 15) == b""


def a_read_has_one_batch_at_least(log: ReplicaLog) -> None:
    """KIP-74."""
    assert [head.base_offset for head in heads(filled(log).read(0, 1, 15))] == [0]


CASES: tuple[Callable[[ReplicaLog], None], ...] = (
    a_leader_gives_offsets_and_its_epoch,
    a_follower_keeps_offsets_and_epochs,
    whole_batches_are_truncated,
    truncating_at_the_end_removes_an_epoch_without_records,
    truncating_to_the_start_empties_it,
    it_starts_anew_elsewhere,
    its_start_advances,
    a_read_begins_with_the_batch_that_contains_the_offset,
    a_read_ends_before_its_end,
    a_read_has_one_batch_at_least,
)
"""Every case."""
