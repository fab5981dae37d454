"""The files of a node whose log a snapshot has shortened, also after a crash between two of its writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.model import EnvironmentFailure
from nodes.reference.core.events import AdvanceLogStart, AppendLog, RestartLog, SaveSnapshot, Snapshot, TruncateLog
from nodes.reference.core.messages import SnapshotId
from nodes.reference.core.records.image import Image
from nodes.reference.core.records.snapshots import snapshot_data
from nodes.reference.core.settings import NodeSettings
from nodes.reference.disk import Disk
from nodes.simulation.reference.disk import SimulatedDisk
from nodes.wire.batches import Record, encode_batch

BATCHES = [encode_batch([Record(None, b"")] * 2, 2 * at, epoch, 0) for at, epoch in enumerate((1, 1, 2, 2))]
LOG = b"".join(BATCHES)
BEHIND_4 = b"".join(BATCHES[2:])
ONE_SEGMENT = 1 << 20
SEGMENT_PER_BATCH = len(BATCHES[0])
PARTITION = "__cluster_metadata-0"


def settings(segment_bytes: int = ONE_SEGMENT) -> NodeSettings:
    return NodeSettings(1, (1, 2, 3), "c", segment_bytes=segment_bytes)


def snapshot(end_offset: int, epoch: int) -> Snapshot:
    snapshot_id = SnapshotId(end_offset, epoch)
    return Snapshot(snapshot_id, snapshot_data(Image(), None, snapshot_id, "c", 0))


def disk_of(tmp_path: Path, segment_bytes: int = ONE_SEGMENT) -> Disk:
    return Disk(tmp_path, settings(segment_bytes), lambda _: None)


def files(tmp_path: Path, suffix: str) -> list[str]:
    return sorted(path.stem.lstrip("0") or "0" for path in (tmp_path / PARTITION).glob(f"*{suffix}"))


def segment(tmp_path: Path, base_offset: int) -> Path:
    return tmp_path / PARTITION / f"{base_offset:020d}.log"


def test_segments_that_a_snapshot_covers_are_removed_and_so_are_former_snapshots(tmp_path: Path) -> None:
    disk = disk_of(tmp_path, SEGMENT_PER_BATCH)
    disk.carry_out(AppendLog(LOG))
    assert files(tmp_path, ".log") == ["0", "2", "4", "6"]
    disk.carry_out(SaveSnapshot(snapshot(2, 1)))
    disk.carry_out(AdvanceLogStart(2))
    disk.carry_out(SaveSnapshot(snapshot(4, 1)))
    disk.carry_out(AdvanceLogStart(4))
    assert files(tmp_path, ".log") == files(tmp_path, ".index") == ["4", "6"]
    assert files(tmp_path, ".checkpoint") == ["4-0000000001"]
    more = encode_batch([Record(None, b"")], 8, 2, 0)
    disk.carry_out(AppendLog(more))
    disk.close()
    stored = disk_of(tmp_path, SEGMENT_PER_BATCH).load()
    assert (stored.log, stored.snapshot) == (BEHIND_4 + more, snapshot(4, 1))


def test_what_a_snapshot_covers_of_the_last_segment_stays_in_the_file_and_is_not_loaded(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    disk.append(LOG)
    disk.save(snapshot(4, 1))
    disk.carry_out(AdvanceLogStart(4))
    disk.close()
    disk = disk_of(tmp_path)
    assert disk.load().log == BEHIND_4
    assert segment(tmp_path, 0).read_bytes() == LOG
    disk.carry_out(TruncateLog(6))
    disk.close()
    assert disk_of(tmp_path).load().log == BATCHES[2]


@pytest.mark.parametrize("segment_bytes", [ONE_SEGMENT, SEGMENT_PER_BATCH])
def test_a_log_that_does_not_continue_its_snapshot_is_removed(tmp_path: Path, segment_bytes: int) -> None:
    disk = disk_of(tmp_path, segment_bytes)
    disk.append(LOG)
    disk.save(snapshot(20, 3))  # fetched from a leader; a crash comes before RestartLog
    disk.close()
    disk = disk_of(tmp_path, segment_bytes)
    stored = disk.load()
    assert (stored.log, stored.snapshot) == (b"", snapshot(20, 3))
    assert files(tmp_path, ".log") == ["20"]
    disk.append(encode_batch([Record(None, b"")], 20, 3, 0))
    disk.carry_out(SaveSnapshot(snapshot(30, 3)))
    disk.carry_out(RestartLog(30))
    assert files(tmp_path, ".log") == ["30"]
    disk.close()
    assert disk_of(tmp_path).load().log == b""


def test_a_record_of_another_epoch_before_its_end_does_not_continue_a_snapshot(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    disk.append(LOG)
    disk.save(snapshot(4, 2))
    disk.close()
    assert disk_of(tmp_path).load().log == b""


def test_a_crash_that_leaves_a_segment_below_a_snapshot_does_not_matter(tmp_path: Path) -> None:
    disk = disk_of(tmp_path, SEGMENT_PER_BATCH)
    disk.append(LOG)
    disk.save(snapshot(4, 1))
    disk.carry_out(AdvanceLogStart(4))
    disk.close()
    segment(tmp_path, 2).write_bytes(BATCHES[1])
    assert disk_of(tmp_path, SEGMENT_PER_BATCH).load().log == BEHIND_4
    assert files(tmp_path, ".log") == ["4", "6"]


def test_only_the_last_segment_can_be_torn(tmp_path: Path) -> None:
    disk = disk_of(tmp_path, SEGMENT_PER_BATCH)
    disk.append(LOG)
    disk.close()
    segment(tmp_path, 6).write_bytes(BATCHES[3][:-1])
    disk = disk_of(tmp_path, SEGMENT_PER_BATCH)
    assert disk.load().log == b"".join(BATCHES[:3])
    disk.close()
    segment(tmp_path, 2).write_bytes(BATCHES[1][:-1])
    with pytest.raises(
        EnvironmentFailure, match="expected an intact batch at offset 2, since only the last segment may"
    ):
        disk_of(tmp_path, SEGMENT_PER_BATCH).load()


def test_a_full_segment_is_synced_before_the_next_one_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, calls = disk_of(tmp_path, SEGMENT_PER_BATCH), list[str]()
    sync, open_file = os.fdatasync, os.open
    monkeypatch.setattr(os, "fdatasync", lambda file: (calls.append("sync"), sync(file))[1])

    def opened(path: Path, *arguments: int) -> int:
        calls.extend(["new segment"] * (Path(path).suffix == ".log"))
        return open_file(path, *arguments)

    monkeypatch.setattr(os, "open", opened)
    disk.append(LOG)
    assert calls == ["sync", "new segment"] * 3 + ["sync"]


def test_a_missing_snapshot_is_named(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    disk.carry_out(SaveSnapshot(snapshot(4, 1)))
    disk.carry_out(RestartLog(4))
    disk.close()
    (path,) = (tmp_path / PARTITION).glob("*.checkpoint")
    path.unlink()
    with pytest.raises(EnvironmentFailure, match="expected a snapshot that ends at offset 4 or later"):
        disk_of(tmp_path).load()


def test_a_damaged_snapshot_is_named(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    disk.save(snapshot(4, 1))
    disk.close()
    (path,) = (tmp_path / PARTITION).glob("*.checkpoint")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(EnvironmentFailure, match=r"0{9}1\.checkpoint: reading a snapshot"):
        disk_of(tmp_path).load()


@pytest.mark.parametrize("is_crash", [True, False])
def test_a_simulated_disk_starts_with_the_same(is_crash: bool) -> None:
    disk = SimulatedDisk(settings())
    disk.append(LOG)
    disk.save(snapshot(4, 1))
    if not is_crash:
        disk.change_start(AdvanceLogStart(4))
    stored = disk.load(settings())
    assert (stored.log, stored.snapshot) == (BEHIND_4, snapshot(4, 1))
    disk.truncate(6)
    assert disk.load(settings()).log == BATCHES[2]
    disk.change_start(RestartLog(20))
    assert disk.load(settings()).log == b""
    disk.erase()
    assert (disk.load(settings()).log, disk.load(settings()).snapshot) == (b"", None)
