"""A log on disk behaves as a list of batches, and survives restarts, kills and torn writes."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from nodes.reference.logs.compacted_segment import CLEANED, SWAP, Source, write_compacted
from nodes.reference.logs.segment import INDEX_INTERVAL
from nodes.reference.logs.segments import Recovery, SegmentedLog
from nodes.wire.batches import BatchHead, Record, encode_batch, heads

SMALL_SEGMENTS = 20_000


@dataclass(frozen=True)
class Batch:
    """A batch of the model."""

    first: int
    last: int
    data: bytes


def batch_at(offset: int, records: int, size: int) -> Batch:
    return Batch(offset, offset + records - 1, encode_batch([Record(None, b"x" * size)] * records, offset, 1, 0))


class Log(RuleBasedStateMachine):
    """The log, and what it should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "t-0"
        self.model: list[Batch] = []
        self.start = 0
        self.next = 0
        self.log = SegmentedLog(self.path, SMALL_SEGMENTS)

    def teardown(self) -> None:
        self.log.close()
        self.folder.cleanup()

    @rule(records=st.integers(1, 5), size=st.sampled_from([1, 500, 5000, 30_000]), count=st.integers(1, 4))
    def append(self, records: int, size: int, count: int) -> None:
        added = []
        for _ in range(count):
            added.append(batch_at(self.next, records, size))
            self.next += records
        self.model += added
        self.log.append(b"".join(each.data for each in added))

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = self.start + int(share * (self.next - self.start))
        self.log.truncate(offset)
        self.model = [each for each in self.model if each.last < offset]
        if offset < self.next:
            self.next = self.end_after(offset)
            self.start = min(self.start, self.next)

    def end_after(self, offset: int) -> int:
        """The end of a log that was cut at an offset: after its last batch, or after a gap that compaction has left."""
        base, end = self.log.segments[-1].base_offset, self.log.end_offset
        assert end == max([base, *(each.last + 1 for each in self.model)])
        assert end <= max(offset, base)
        return end

    @rule(every=st.integers(1, 3), share=st.floats(0, 1), ends=st.sampled_from(["done", "written", "begun", "changed"]))
    def compact(self, every: int, share: float, ends: str) -> None:
        """Some segments become one; or only half of that happens before a crash, or the log has changed meanwhile."""
        complete = self.log.extents()[:-1]
        first = int(share * len(complete))
        paths = [each.path for each in self.log.segments]
        sources = [
            Source(path, each.base_offset, each.end_offset, each.size_bytes)
            for path, each in list(zip(paths, complete, strict=False))[first : first + 2]
        ]
        if not sources:
            return

        def keep(data: bytes, head: BatchHead) -> bytes:
            return b"" if head.base_offset % every else data

        written = write_compacted(self.path, sources, keep)
        if ends == "changed":
            wrong = replace(written, replaces=((sources[0].base_offset, sources[0].size + 1),))
            assert not self.log.replace(wrong)
            return
        if ends == "done":
            assert self.log.replace(written)
        else:
            self.log.close()
            if ends == "begun":
                (self.path / CLEANED).rename(self.path / f"{SWAP}{written.end_offset:020d}")
            self.log = SegmentedLog(self.path, SMALL_SEGMENTS)
            self.start = self.log.start_offset
        if ends != "written":
            inside = range(written.base_offset, written.end_offset)
            self.model = [each for each in self.model if each.first not in inside or each.first % every == 0]
        assert not (self.path / CLEANED).exists()

    @rule(gap=st.integers(0, 3))
    def truncate_fully(self, gap: int) -> None:
        self.start = self.next = self.next + gap
        self.model = []
        self.log.truncate_fully(self.start)

    @rule(share=st.floats(0, 1))
    def delete(self, share: float) -> None:
        offset = self.start + int(share * (self.next - self.start))
        self.log.delete_before(offset)
        self.start = max(self.start, offset)
        first = self.log.segments[0].base_offset
        self.model = [each for each in self.model if each.first >= first]

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = SegmentedLog(self.path, SMALL_SEGMENTS)
        assert self.log.torn_bytes == 0
        self.start = self.log.start_offset

    @rule(torn=st.sampled_from([b"\0", b"\0" * 100, b"torn" * 30]), loses_index=st.booleans())
    def crash(self, torn: bytes, loses_index: bool) -> None:
        """What was written last is torn, and the index may be gone."""
        self.log.close()
        last = self.log.segments[-1]
        with last.path.open("ab") as file:
            file.write(torn)
        if loses_index:
            last.path.with_suffix(".index").unlink()
        self.log = SegmentedLog(self.path, SMALL_SEGMENTS)
        assert self.log.torn_bytes == len(torn)
        self.start = self.log.start_offset

    @rule()
    def lose_the_last_batch(self) -> None:
        """The last batch was written in part."""
        last = self.log.segments[-1]
        if not last.size:
            return
        self.log.close()
        os.truncate(last.path, last.size - 1)
        self.log = SegmentedLog(self.path, SMALL_SEGMENTS)
        lost = self.model.pop()
        assert self.log.torn_bytes == len(lost.data) - 1
        self.next, self.start = self.end_after(lost.first), self.log.start_offset

    @invariant()
    def ends_where_the_model_does(self) -> None:
        assert self.log.end_offset == self.next
        assert self.log.start_offset <= self.log.end_offset

    @invariant()
    def holds_what_the_model_does(self) -> None:
        held = [batch for _, batch in self.log.batches(self.log.start_offset)]
        assert held == [each.data for each in self.model if each.last >= self.log.start_offset]

    @rule(share=st.floats(0, 1), max_bytes=st.sampled_from([1, 1000, 100_000]), limit=st.floats(0, 1))
    def read(self, share: float, max_bytes: int, limit: float) -> None:
        start = self.log.start_offset
        offset, end = (start + int(each * (self.next - start)) for each in (share, limit))
        data = self.log.read(offset, max_bytes, end)
        expected = [each for each in self.model if each.last >= offset and each.last < end]
        found = list(heads(data))
        assert [head.base_offset for head in found] == [each.first for each in expected][: len(found)]
        assert len(data) <= max_bytes or len(found) == 1
        assert bool(found) == bool(expected and offset < end)
        assert sum(head.end - head.start for head in found) == len(data)


def test_a_log_is_a_list_of_batches_that_survives_crashes() -> None:
    run_state_machine_as_test(Log, settings=settings(max_examples=200, stateful_step_count=30, deadline=None))


def test_a_log_opens_without_reading_what_lies_before_its_last_segment(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path, 100_000)
    for offset in range(200):
        log.append(batch_at(offset, 1, 5000).data)
    log.close()
    first = log.segments[0].path
    with first.open("r+b") as file:
        file.seek(200)
        file.write(b"damaged")
    assert len(log.segments) > 5
    assert SegmentedLog(tmp_path, 100_000).end_offset == 200


def test_all_segments_that_were_not_flushed_are_and_later_the_last_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, flushed = SegmentedLog(tmp_path, 100), list[int]()
    monkeypatch.setattr(os, "fdatasync", lambda file: flushed.append(file))
    for offset in range(3):
        log.append(batch_at(offset, 1, 100).data)
    files = [each.file for each in log.segments]
    log.flush()
    log.flush()
    assert flushed == [*files, files[-1]]


def test_what_follows_a_torn_batch_is_removed_from_the_recovery_point_on(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path, 100_000)
    for offset in range(100):
        log.append(batch_at(offset, 1, 5000).data)
    log.close()
    second = log.segments[1]
    with second.path.open("r+b") as file:
        file.seek(200)
        file.write(b"damaged")
    opened = SegmentedLog(tmp_path, 100_000, Recovery(0))
    assert opened.end_offset == second.base_offset
    assert opened.torn_bytes == sum(each.size for each in log.segments[1:])
    assert sorted(path.stem for path in tmp_path.glob("*.log")) == [f"{0:020d}", f"{second.base_offset:020d}"]


@pytest.mark.parametrize("offset", [0, 500, 999])
def test_a_read_begins_near_its_offset(tmp_path: Path, offset: int) -> None:
    log = SegmentedLog(tmp_path)
    for number in range(1000):
        log.append(batch_at(number, 1, 1000).data)
    segment = log.segments[0]
    batch_bytes = segment.size // 1000
    assert list(segment.offsets) == list(range(4, 1000, 4)), "an entry for every fourth batch of a kilobyte"
    assert 0 <= offset * batch_bytes - segment.position_before(offset) < INDEX_INTERVAL + batch_bytes
    (head, *_) = heads(log.read(offset, 1, 1000))
    assert head.base_offset == offset


def test_a_batch_larger_than_the_scan_is_read_whole(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path)
    large = batch_at(0, 1, 3 << 20)
    log.append(large.data + batch_at(1, 1, 10).data)
    assert log.read(0, 10, 2) == large.data
    log.close()
    assert SegmentedLog(tmp_path).end_offset == 2
