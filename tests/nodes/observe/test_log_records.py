"""Records and transaction markers in a broker's log, and the folders that are read."""

from __future__ import annotations

import struct
from pathlib import Path

from harness.model.records.logged_record import LoggedRecord
from nodes.observe.log_batches import partitions_in
from nodes.observe.log_records import read_records
from nodes.wire.batches import HEADER_BYTES, Record, encode_batch

FIRST = encode_batch([Record(None, b"7"), Record(b"key", None)], base_offset=0, leader_epoch=1, timestamp_ms=0)
LATER = encode_batch([Record(None, b"8")], base_offset=5, leader_epoch=1, timestamp_ms=0)


def marker(offset: int, kind: int) -> bytes:
    """A control batch; its key is version 0 and the type."""
    control = Record(struct.pack(">hh", 0, kind), b"")
    return encode_batch([control], offset, leader_epoch=1, timestamp_ms=0, is_control=True)


def records_of(folder: Path, *batches: bytes) -> list[tuple]:
    """(offset, marker, value) of each record in a log of these batches."""
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    return [(record.offset, record.marker, record.value) for record in read_records(3, folder)]


def test_records_have_offsets_values_and_markers(tmp_path: Path) -> None:
    records = records_of(tmp_path / "log-2", FIRST, marker(2, 1), marker(3, 0), marker(4, 2), LATER)
    expected = [(0, None, "7"), (1, None, None), (2, "commit", None), (3, "abort", None), (4, None, None)]
    assert records == [*expected, (5, None, "8")]


def test_record_has_its_partition(tmp_path: Path) -> None:
    records_of(tmp_path / "a-topic-11", LATER)
    assert list(read_records(3, tmp_path / "a-topic-11")) == [LoggedRecord(3, "a-topic", 11, 5, -1, -1, None, "8")]


def test_records_of_torn_and_corrupt_batches_are_ignored(tmp_path: Path) -> None:
    corrupt = FIRST[: HEADER_BYTES + 2] + bytes([FIRST[HEADER_BYTES + 2] ^ 1]) + FIRST[HEADER_BYTES + 3 :]
    assert records_of(tmp_path / "log-0", corrupt, LATER, LATER[:-1]) == [(5, None, "8")]


def test_quorum_log_and_users_topics_are_compared_but_not_internal_topics(tmp_path: Path) -> None:
    for name in ("__cluster_metadata-0", "log-1", "a-topic-11", "__consumer_offsets-4", "log-deleted", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").touch()
    assert [folder.name for folder in partitions_in(tmp_path)] == ["__cluster_metadata-0", "a-topic-11", "log-1"]
