"""The log on disk and the log in memory are the same to the core."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from nodes.reference.core.partitions.epochs import EpochStart
from nodes.reference.core.partitions.log import ReplicaLog, stamped_all
from nodes.reference.core.partitions.memory_log import MemoryLog
from nodes.reference.logs.disk_log import EPOCHS, DiskLog
from nodes.reference.logs.segments import Recovery
from nodes.wire.batches import Record, encode_batch
from tests.support.nodes.replica_log_cases import CASES

SMALL_SEGMENTS = 2_000


def batch(records: int) -> bytes:
    return encode_batch([Record(None, b"x" * 100)] * records, 0, -1, 0)


class Logs(RuleBasedStateMachine):
    """Both logs, which see the same calls."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "t-0"
        self.disk, self.memory, self.epoch = DiskLog(self.path, SMALL_SEGMENTS), MemoryLog(), 0

    def teardown(self) -> None:
        self.disk.close()
        self.folder.cleanup()

    @property
    def logs(self) -> tuple[ReplicaLog, ReplicaLog]:
        return self.disk, self.memory

    @rule(records=st.integers(1, 4), count=st.integers(1, 3))
    def append_as_leader(self, records: int, count: int) -> None:
        data = batch(records) * count
        assert len({log.append_as_leader(data, self.epoch) for log in self.logs}) == 1

    @rule(records=st.integers(1, 4))
    def append_as_follower(self, records: int) -> None:
        data = stamped_all(batch(records), self.memory.end_offset, self.epoch)
        for log in self.logs:
            log.append_as_follower(data)

    @rule(by=st.integers(1, 3))
    def begin_epoch(self, by: int) -> None:
        self.epoch += by
        for log in self.logs:
            log.begin_epoch(self.epoch)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = self._offset(share)
        for log in self.logs:
            log.truncate(offset)

    @rule(gap=st.integers(0, 5))
    def start_anew(self, gap: int) -> None:
        offset = self.memory.end_offset + gap
        for log in self.logs:
            log.truncate_fully_and_start_at(offset)

    @rule(loses_epochs=st.booleans())
    def reopen(self, loses_epochs: bool) -> None:
        """An epoch without a record is not in the batches."""
        self.disk.close()
        if loses_epochs and (self.path / EPOCHS).exists():
            (self.path / EPOCHS).write_text("damaged")
            self.memory.lose_epochs()
        self.disk = DiskLog(self.path, SMALL_SEGMENTS)
        if not loses_epochs:
            assert self.disk.epochs == self.memory.epochs.truncated_from_end(self.memory.end_offset)
            self.memory.truncate(self.memory.end_offset)

    @rule(share=st.floats(0, 1), max_bytes=st.sampled_from([1, 500, 10_000]), limit=st.floats(0, 1))
    def read(self, share: float, max_bytes: int, limit: float) -> None:
        """The disk may return less: one segment at a time."""
        offset, end = self._offset(share), self._offset(limit)
        disk, memory = (log.read(offset, max_bytes, end) for log in self.logs)
        assert memory.startswith(disk)
        assert bool(disk) == bool(memory)

    @invariant()
    def they_are_the_same(self) -> None:
        assert self.disk.start_offset == self.memory.start_offset
        assert self.disk.end_offset == self.memory.end_offset
        assert self.disk.epochs == self.memory.epochs
        start = self.memory.start_offset
        assert [data for data, _ in self.disk.batches(start)] == [data for data, _ in self.memory.batches(start)]

    def _offset(self, share: float) -> int:
        start, end = self.memory.start_offset, self.memory.end_offset
        return start + int(share * (end - start))


def test_the_disk_is_the_memory() -> None:
    run_state_machine_as_test(Logs, settings=settings(max_examples=60, stateful_step_count=30, deadline=None))


def test_the_batches_say_which_epochs_a_failure_of_the_power_removed_from_the_file(tmp_path: Path) -> None:
    log = DiskLog(tmp_path / "t-0")
    log.append_as_leader(batch(2), 1)
    stored = (tmp_path / "t-0" / EPOCHS).read_text()
    log.append_as_leader(batch(3), 4)
    log.append_as_leader(batch(1), 4)
    expected = log.epochs
    log.close()
    (tmp_path / "t-0" / EPOCHS).write_text(stored)
    for recovery_point in (0, 2, None):
        assert DiskLog(tmp_path / "t-0", recovery=Recovery(recovery_point)).epochs == expected


def test_epochs_survive_a_restart(tmp_path: Path) -> None:
    log = DiskLog(tmp_path)
    log.append_as_leader(batch(2), 3)
    log.append_as_leader(batch(2), 5)
    log.close()
    assert (tmp_path / EPOCHS).read_text() == "0\n2\n3 0\n5 2\n"
    assert DiskLog(tmp_path).epochs.starts == (EpochStart(3, 0), EpochStart(5, 2))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_log_on_disk_does_what_every_log_does(case: Callable[[ReplicaLog], None], tmp_path: Path) -> None:
    case(DiskLog(tmp_path, SMALL_SEGMENTS))
