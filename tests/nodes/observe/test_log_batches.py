"""Logs on disk as batches: segments, torn tails, corrupt batches, voters and checkpoints."""

from __future__ import annotations

import io
import json
import struct
import uuid
from pathlib import Path
from typing import Any

import pytest
from kio.schema.leader_change_message.v0 import data as leader_change_v0
from kio.schema.leader_change_message.v1 import data as leader_change_v1
from kio.schema.types import BrokerId
from kio.schema.voters_record.v0 import VotersRecord
from kio.schema.voters_record.v0.data import Endpoint, KRaftVersionFeature, Voter
from kio.serial import entity_writer
from kio.static.primitive import i16, i32, u16

from harness.model.records.logged_batch import LoggedBatch
from nodes.observe.log_batches import read_log
from nodes.wire import voter_assignment
from nodes.wire.batches import HEADER_BYTES, Record, encode_batch, heads, records

ONE = [Record(b"key", b"value")]
FIRST = encode_batch(ONE, base_offset=0, leader_epoch=1, timestamp_ms=0, is_control=True)
SECOND = encode_batch([*ONE, *ONE], base_offset=1, leader_epoch=1, timestamp_ms=7)
THIRD = encode_batch(ONE, base_offset=3, leader_epoch=2, timestamp_ms=9)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    return folder


def write_segment(partition: Path, base_offset: int, *content: bytes) -> None:
    (partition / f"{base_offset:020d}.log").write_bytes(b"".join(content))


def flipped(batch: bytes) -> bytes:
    """The batch with one bit of its first record flipped."""
    return batch[: HEADER_BYTES + 2] + bytes([batch[HEADER_BYTES + 2] ^ 1]) + batch[HEADER_BYTES + 3 :]


def offsets(partition: Path) -> list[tuple[int, bool]]:
    return [(batch.base_offset, batch.intact) for batch in read_log(1, partition)]


def test_batch_has_all_fields_of_its_header(partition: Path) -> None:
    write_segment(partition, 0, FIRST, SECOND)
    first, second = read_log(2, partition)
    crcs = [int.from_bytes(batch[17:21], "big") for batch in (FIRST, SECOND)]
    assert first == LoggedBatch(2, "__cluster_metadata", 0, 0, 0, 1, crcs[0], -1, -1, -1, control=True, intact=True)
    assert second == LoggedBatch(2, "__cluster_metadata", 0, 1, 2, 1, crcs[1], -1, -1, -1, control=False, intact=True)


def test_batch_has_its_producers_id_epoch_and_sequence(partition: Path) -> None:
    # KIP-98: producerId at byte 43, producerEpoch at 51, baseSequence at 53; the checksum, at 17, is now wrong.
    produced = SECOND[:43] + (700).to_bytes(8, "big") + (5).to_bytes(2, "big") + (31).to_bytes(4, "big") + SECOND[57:]
    write_segment(partition, 0, FIRST, produced, THIRD)
    batch = list(read_log(1, partition))[1]
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.intact) == (700, 5, 31, False)


def test_segments_are_read_in_order_of_offset_without_deleted_ones(partition: Path) -> None:
    write_segment(partition, 3, THIRD)
    write_segment(partition, 0, FIRST, SECOND)
    (partition / f"{0:020d}.log.deleted").write_bytes(FIRST)
    assert offsets(partition) == [(0, True), (1, True), (3, True)]


def test_torn_tail_of_any_length_is_ignored(partition: Path) -> None:
    for length in range(len(SECOND)):
        write_segment(partition, 0, FIRST, SECOND[:length])
        assert offsets(partition) == [(0, True)]


def test_corrupt_batch_at_the_end_is_a_torn_tail(partition: Path) -> None:
    write_segment(partition, 0, FIRST, flipped(SECOND))
    assert offsets(partition) == [(0, True)]


@pytest.mark.parametrize("segments", [{0: FIRST + flipped(SECOND) + THIRD}, {0: FIRST + flipped(SECOND), 3: THIRD}])
def test_corrupt_batch_before_an_intact_one_is_not_intact(partition: Path, segments: dict[int, bytes]) -> None:
    for base_offset, content in segments.items():
        write_segment(partition, base_offset, content)
    assert offsets(partition) == [(0, True), (1, False), (3, True)]


def test_node_without_a_log_has_no_batches(tmp_path: Path) -> None:
    assert list(read_log(1, tmp_path / "__cluster_metadata-0")) == []


def voters_batch(*voters: int) -> bytes:
    """A batch with a VotersRecord, at offset 4 of epoch 2."""
    message = VotersRecord(
        version=i16(0),
        voters=tuple(
            Voter(
                voter_id=BrokerId(voter),
                voter_directory_id=uuid.UUID(int=voter),
                endpoints=(Endpoint(name="CONTROLLER", host="10.0.0.1", port=u16(9093)),),
                k_raft_version_feature=KRaftVersionFeature(min_supported_version=i16(0), max_supported_version=i16(1)),
            )
            for voter in voters
        ),
    )
    buffer = io.BytesIO()
    entity_writer(VotersRecord)(buffer, message)
    record = Record(struct.pack(">hh", 0, 6), buffer.getvalue())
    return encode_batch([record], base_offset=4, leader_epoch=2, timestamp_ms=0, is_control=True)


def test_batch_with_a_voters_record_has_the_voters(partition: Path) -> None:
    write_segment(partition, 0, FIRST, SECOND, THIRD, voters_batch(3, 1))
    assert [batch.voters for batch in read_log(1, partition)] == [None, None, None, "[1, 3]"]


def test_batch_with_a_voter_assignment_has_the_current_voters(partition: Path) -> None:
    record = voter_assignment.encode("c1", current=(3, 1), target=(4, 5))
    write_segment(partition, 4, encode_batch([record], base_offset=4, leader_epoch=2, timestamp_ms=0, is_control=True))
    assert [batch.voters for batch in read_log(1, partition)] == ["[1, 3]"]


def control_batch(*controls: tuple[int, bytes]) -> bytes:
    """A control batch at offset 4 with records of these types and values."""
    content = [Record(struct.pack(">hh", 0, kind), value) for kind, value in controls]
    return encode_batch(content, base_offset=4, leader_epoch=2, timestamp_ms=0, is_control=True)


def leader_change(version: int) -> bytes:
    """A LeaderChangeMessage: leader 2, voters 1 to 3, of which 3 and 2 granted their votes."""
    module = (leader_change_v0, leader_change_v1)[version]

    def voter(number: int) -> Any:
        directory = {"voter_directory_id": uuid.UUID(int=number)} if version else {}
        return module.Voter(voter_id=i32(number), **directory)

    message = module.LeaderChangeMessage(
        version=i16(version),
        leader_id=BrokerId(2),
        voters=tuple(map(voter, (1, 2, 3))),
        granting_voters=tuple(map(voter, (3, 2))),
    )
    buffer = io.BytesIO()
    entity_writer(module.LeaderChangeMessage)(buffer, message)
    return buffer.getvalue()


@pytest.mark.parametrize("version", [0, 1])
def test_batch_with_a_leader_change_has_the_election(partition: Path, version: int) -> None:
    write_segment(partition, 0, FIRST, SECOND, THIRD, control_batch((2, leader_change(version))))
    *earlier, last = read_log(1, partition)
    assert [batch.election for batch in earlier] == [None] * 3
    assert json.loads(last.election or "") == {"leader": 2, "voters": [1, 2, 3], "granting": [2, 3]}
    assert last.voters is None


def test_batch_may_have_both_an_election_and_voters(partition: Path) -> None:
    """The first leader of a quorum with dynamic voters writes both in one batch."""
    (head,) = heads(voters_batch(1, 2))
    (voters,) = records(voters_batch(1, 2), head)
    write_segment(partition, 4, control_batch((2, leader_change(1)), (6, voters.value or b"")))
    (batch,) = read_log(1, partition)
    assert (batch.voters, json.loads(batch.election or "")["leader"]) == ("[1, 2]", 2)


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x02\x00", b"\x00\x00\x01", b"\xff\xff\x00"])
def test_control_record_that_cannot_be_decoded_counts_as_absent(partition: Path, value: bytes) -> None:
    write_segment(partition, 4, control_batch((2, value), (6, value), (642, value)))
    (batch,) = read_log(1, partition)
    assert (batch.voters, batch.election) == (None, None)


def test_batch_has_its_epoch_in_the_checkpoint(partition: Path) -> None:
    write_segment(partition, 0, FIRST, SECOND, THIRD)
    (partition / "leader-epoch-checkpoint").write_text("0\n2\n1 1\n2 3\n")
    assert [batch.checkpoint_epoch for batch in read_log(1, partition)] == [-1, 1, 2]


@pytest.mark.parametrize("content", [None, "", "0\n2\n1 1\n", "1\n1\n1 1\n", "0\n1\none two\n", "\x00\xff"])
def test_batch_has_no_checkpoint_epoch_without_a_valid_checkpoint(partition: Path, content: str | None) -> None:
    write_segment(partition, 0, FIRST)
    if content is not None:
        (partition / "leader-epoch-checkpoint").write_text(content)
    assert [batch.checkpoint_epoch for batch in read_log(1, partition)] == [None]


@pytest.mark.parametrize(
    ("first_entry", "snapshot", "kept"),
    [(3, 3, [3]), (1, 1, [1, 3]), (3, 1, [0, 1, 3]), (3, None, [0, 1, 3]), (0, 3, [0, 1, 3])],
    ids=["at the snapshot", "at an earlier one", "at no snapshot", "without a snapshot", "before it"],
)
def test_a_log_begins_at_the_snapshot_at_which_its_checkpoint_begins(
    partition: Path, first_entry: int, snapshot: int | None, kept: list[int]
) -> None:
    write_segment(partition, 0, FIRST, SECOND, THIRD)
    (partition / "leader-epoch-checkpoint").write_text(f"0\n1\n2 {first_entry}\n")
    if snapshot is not None:
        (partition / f"{snapshot:020}-0000000001.checkpoint").touch()
    assert [base_offset for base_offset, _ in offsets(partition)] == kept


def test_batch_has_the_offset_up_to_which_its_broker_compacted_the_partition(partition: Path) -> None:
    write_segment(partition, 0, FIRST, SECOND)
    assert [batch.cleaned_to for batch in read_log(1, partition)] == [None, None]
    (partition.parent / "cleaner-offset-checkpoint").write_text("0\n2\nother 0 9\n__cluster_metadata 0 1\n")
    assert [batch.cleaned_to for batch in read_log(1, partition)] == [1, 1]
    (partition.parent / "cleaner-offset-checkpoint").write_text("0\n3\n__cluster_metadata 0 1\n")
    assert [batch.cleaned_to for batch in read_log(1, partition)] == [None, None]
