"""Records and markers as a broker's log holds them, and which of its folders are read at all."""

from __future__ import annotations

import struct
from pathlib import Path

from harness.model.records.logged_record import LoggedRecord
from nodes.observe.log_batches import partitions_in
from nodes.observe.log_records import read_records
from nodes.wire.batches import HEADER_BYTES, Record, encode_batch

SENT = encode_batch([Record(None, b"7"), Record(b"key", None)], base_offset=0, leader_epoch=1, timestamp_ms=0)
LATER = encode_batch([Record(None, b"8")], base_offset=5, leader_epoch=1, timestamp_ms=0)


def marker(offset: int, kind: int) -> bytes:
    """A control batch: its key is version 0 and the kind."""
    control = Record(struct.pack(">hh", 0, kind), b"")
    return encode_batch([control], offset, leader_epoch=1, timestamp_ms=0, is_control=True)


def of(folder: Path, *batches: bytes) -> list[tuple]:
    """(offset, marker, value) of each record in a log of these batches."""
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    return [(record.offset, record.marker, record.value) for record in read_records(3, folder)]


def test_records_have_offsets_and_values_and_markers_say_how_a_transaction_ended(tmp_path: Path) -> None:
    told = of(tmp_path / "log-2", SENT, marker(2, 1), marker(3, 0), marker(4, 2), LATER)
    expected = [(0, None, "7"), (1, None, None), (2, "commit", None), (3, "abort", None), (4, None, None)]
    assert told == [*expected, (5, None, "8")]


def test_a_record_is_told_with_its_partition(tmp_path: Path) -> None:
    of(tmp_path / "a-topic-11", LATER)
    assert list(read_records(3, tmp_path / "a-topic-11")) == [LoggedRecord(3, "a-topic", 11, 5, -1, -1, None, "8")]


def test_a_torn_or_corrupt_batch_holds_no_records(tmp_path: Path) -> None:
    corrupt = SENT[: HEADER_BYTES + 2] + bytes([SENT[HEADER_BYTES + 2] ^ 1]) + SENT[HEADER_BYTES + 3 :]
    assert of(tmp_path / "log-0", corrupt, LATER, LATER[:-1]) == [(5, None, "8")]


def test_the_quorums_log_and_users_topics_are_compared_and_kafkas_own_are_not(tmp_path: Path) -> None:
    for name in ("__cluster_metadata-0", "log-1", "a-topic-11", "__consumer_offsets-4", "log-deleted", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").touch()
    assert [folder.name for folder in partitions_in(tmp_path)] == ["__cluster_metadata-0", "a-topic-11", "log-1"]
