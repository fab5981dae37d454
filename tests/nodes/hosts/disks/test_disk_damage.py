"""Damage to files at rest: which bytes change, and which do not."""

from __future__ import annotations

import random

import pytest

from harness.model import BadInput, PeerFailure
from nodes.hosts.disks.file_damage import corrupt_checkpoint, flip_bits, truncate_log, wipe
from nodes.wire.batches import Record, encode_batch, heads

LOG = "__cluster_metadata-0"
BATCHES = [encode_batch([Record(b"key", bytes(size))], base, 1, 0) for base, size in enumerate((10, 500, 30))]


@pytest.fixture
def data(tmp_path):
    (tmp_path / LOG).mkdir()
    (tmp_path / LOG / "00000000000000000000.log").write_bytes(b"old")
    (tmp_path / LOG / "00000000000000000007.log").write_bytes(b"".join(BATCHES))
    (tmp_path / LOG / "quorum-state").write_text('{"leaderEpoch":3}')
    return tmp_path


def newest(data):
    return (data / LOG / "00000000000000000007.log").read_bytes()


def differing_bits(before, after):
    return sum((a ^ b).bit_count() for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("bits", [1, 17])
def test_exactly_the_given_number_of_bits_is_flipped(data, bits):
    before = newest(data)
    done = flip_bits(data, {"bits": bits, "files": f"{LOG}/*7.log"}, random.Random(1))
    assert differing_bits(before, newest(data)) == bits == len(done["bits"])
    assert done["file"] == f"{LOG}/00000000000000000007.log"
    assert (data / LOG / "00000000000000000000.log").read_bytes() == b"old"


def test_the_same_seed_flips_the_same_bits(data):
    first = flip_bits(data, {"bits": 5, "files": "*/*.log"}, random.Random(1))
    again = flip_bits(data, {"bits": 5, "files": "*/*.log"}, random.Random(1))
    assert (first["file"], first["bits"]) == (again["file"], again["bits"])
    assert first["before"] == again["after"]


def test_the_last_bytes_of_the_newest_segment_are_cut(data):
    whole = newest(data)
    truncate_log(data, {"last_bytes": 5, "log": LOG}, random.Random(1))
    assert newest(data) == whole[:-5]


@pytest.mark.parametrize(("last", "remaining"), [(1, 2), (2, 1), (3, 0)])
def test_the_last_batches_of_the_newest_segment_are_cut(data, last, remaining):
    truncate_log(data, {"last_batches": last, "log": LOG}, random.Random(1))
    assert newest(data) == b"".join(BATCHES[:remaining])
    assert len(list(heads(newest(data)))) == remaining


def test_a_torn_tail_is_cut_together_with_the_last_whole_batch(data):
    (data / LOG / "00000000000000000007.log").write_bytes(b"".join(BATCHES) + BATCHES[0][:20])
    truncate_log(data, {"last_batches": 1, "log": LOG}, random.Random(1))
    assert newest(data) == b"".join(BATCHES[:2])


@pytest.mark.parametrize("details", [{"last_batches": 4}, {"last_bytes": 10_000}])
def test_cutting_more_than_the_segment_holds_fails(data, details):
    with pytest.raises(PeerFailure, match="are too few"):
        truncate_log(data, {**details, "log": LOG}, random.Random(1))
    assert newest(data) == b"".join(BATCHES)


def test_last_bytes_and_last_batches_exclude_each_other(data):
    with pytest.raises(BadInput):
        truncate_log(data, {"last_bytes": 1, "last_batches": 1, "log": LOG}, random.Random(1))


@pytest.mark.parametrize(
    ("damage", "is_damaged"),
    [
        ("garbage", lambda content: len(content) == 17 and content != b'{"leaderEpoch":3}'),
        ("zeros", lambda content: content == bytes(17)),
        ("empty", lambda content: content == b""),
    ],
)
def test_a_checkpoint_holds_the_requested_damage(data, damage, is_damaged):
    corrupt_checkpoint(data, {"file": f"{LOG}/quorum-state", "damage": damage}, random.Random(1))
    assert is_damaged((data / LOG / "quorum-state").read_bytes())


def test_a_missing_checkpoint_is_deleted(data):
    done = corrupt_checkpoint(data, {"file": f"{LOG}/quorum-state", "damage": "missing"}, random.Random(1))
    assert not (data / LOG / "quorum-state").exists()
    assert (done["file"], done["after"]) == (f"{LOG}/quorum-state", None)


def test_a_wiped_directory_is_empty_and_the_targets_of_its_links_are_kept(data, tmp_path_factory):
    linked = tmp_path_factory.mktemp("linked")
    (linked / "kept").write_text("kept")
    (data / "link").symlink_to(linked)
    assert wipe(data) == {"removed": 2}
    assert list(data.iterdir()) == []
    assert (linked / "kept").read_text() == "kept"
