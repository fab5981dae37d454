"""The files of a node whose log a snapshot has shortened, also after a crash between two of its writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model import EnvironmentFailure
from nodes.reference.core.events import AppendLog, SaveSnapshot, Snapshot
from nodes.reference.core.messages import SnapshotId
from nodes.reference.core.records.image import Image
from nodes.reference.core.records.snapshots import snapshot_data
from nodes.reference.core.settings import NodeSettings
from nodes.reference.disk import Disk
from nodes.simulation.reference.disk import SimulatedDisk
from nodes.wire.batches import Record, encode_batch

SETTINGS = NodeSettings(1, (1, 2, 3), "c")
BATCHES = [encode_batch([Record(None, b"")] * 2, 2 * at, epoch, 0) for at, epoch in enumerate((1, 1, 2, 2))]
LOG = b"".join(BATCHES)
COVERED = len(BATCHES[0]) + len(BATCHES[1])
LOG_FROM_4 = "00000000000000000004.log"


def snapshot(end_offset: int, epoch: int) -> Snapshot:
    snapshot_id = SnapshotId(end_offset, epoch)
    return Snapshot(snapshot_id, snapshot_data(Image(), None, snapshot_id, "c", 0))


def disk_of(tmp_path: Path) -> Disk:
    return Disk(tmp_path, SETTINGS, lambda _: None)


def names(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "__cluster_metadata-0").iterdir())


def test_the_log_begins_behind_a_saved_snapshot_and_the_former_ones_are_gone(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    disk.carry_out(AppendLog(LOG))
    disk.carry_out(SaveSnapshot(snapshot(2, 1), len(BATCHES[0])))
    disk.carry_out(SaveSnapshot(snapshot(4, 1), len(BATCHES[1])))
    assert names(tmp_path) == ["00000000000000000004-0000000001.checkpoint", LOG_FROM_4]
    more = encode_batch([Record(None, b"")], 8, 2, 0)
    disk.carry_out(AppendLog(more))
    disk.close()
    stored = disk_of(tmp_path).load()
    assert (stored.log, stored.snapshot) == (LOG[COVERED:] + more, snapshot(4, 1))


def test_a_snapshot_without_a_shorter_log_shortens_it_at_the_next_start(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    disk.append(LOG)
    disk.save(snapshot(4, 1), None)
    assert (tmp_path / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes() == LOG
    disk.close()
    disk = disk_of(tmp_path)
    assert disk.load().log == LOG[COVERED:]
    assert names(tmp_path)[1:] == [LOG_FROM_4]
    disk.truncate(len(BATCHES[2]))
    disk.close()
    assert disk_of(tmp_path).load().log == BATCHES[2]


def test_a_crash_before_the_log_was_replaced_leaves_none_of_a_log_that_the_snapshot_does_not_continue(
    tmp_path: Path,
) -> None:
    disk = disk_of(tmp_path)
    disk.append(LOG)
    disk.save(snapshot(20, 3), None)  # fetched from a leader; the log was to be removed as a whole
    disk.close()
    stored = disk_of(tmp_path).load()
    assert (stored.log, stored.snapshot) == (b"", snapshot(20, 3))
    assert names(tmp_path)[1:] == ["00000000000000000020.log"]


def test_a_crash_before_the_former_log_was_removed_leaves_the_later_one(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    disk.append(LOG)
    disk.save(snapshot(4, 1), COVERED)
    disk.close()
    (tmp_path / "__cluster_metadata-0" / "00000000000000000000.log").write_bytes(LOG)
    disk = disk_of(tmp_path)
    assert disk.load().log == LOG[COVERED:]
    assert names(tmp_path)[1:] == [LOG_FROM_4]


def test_a_damaged_snapshot_is_named(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    disk.save(snapshot(4, 1), 0)
    disk.close()
    (path,) = (tmp_path / "__cluster_metadata-0").glob("*.checkpoint")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(EnvironmentFailure, match=r"0{9}1\.checkpoint: reading a snapshot"):
        disk_of(tmp_path).load()


@pytest.mark.parametrize("log_bytes", [None, COVERED])
def test_a_simulated_disk_starts_with_the_same(log_bytes: int | None) -> None:
    disk = SimulatedDisk(SETTINGS)
    disk.append(LOG)
    disk.save(snapshot(4, 1), log_bytes)
    stored = disk.load(SETTINGS)
    assert (stored.log, stored.snapshot) == (LOG[COVERED:], snapshot(4, 1))
    disk.truncate(len(BATCHES[2]))
    assert disk.load(SETTINGS).log == BATCHES[2]
    disk.erase()
    assert (disk.load(SETTINGS).log, disk.load(SETTINGS).snapshot) == (b"", None)
