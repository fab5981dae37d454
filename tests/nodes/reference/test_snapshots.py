"""Snapshots of the quorum's metadata (KIP-630): when they are made, what they hold, and how a follower fetches one."""

from __future__ import annotations

import uuid
from functools import partial

import pytest
from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from nodes.reference.core.events import Assignment
from nodes.reference.core.messages import FetchRequest, FetchSnapshotRequest, ReplicaKey, SnapshotId, VoterNode
from nodes.reference.core.records.entities import (
    AclRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from nodes.reference.core.records.image import Image
from nodes.reference.core.records.log import Log
from nodes.reference.core.records.snapshots import Contents, contents, continuing, snapshot_data
from nodes.reference.core.roles.states import Follower
from nodes.wire.batches import Record, encode_batch, heads
from tests.support.nodes.quorum_simulation import Operation, Simulation, value_of

SMALL = {"snapshot_bytes": 2000, "retention_bytes": 1, "read_mode": "local"}
TOPIC_ID, ACL_ID = uuid.UUID(int=7), uuid.UUID(int=8)
EVERYTHING = (
    RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=uuid.UUID(int=1),
        broker_epoch=3,
        end_points=(BrokerEndpoint(name="PLAINTEXT", host="n1", port=9092),),
        rack="r",
        log_dirs=(uuid.UUID(int=2),),
    ),
    BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, fenced=-1, in_controlled_shutdown=1),
    TopicRecord(name="t", topic_id=TOPIC_ID),
    PartitionRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, adding_replicas=(3,)
    ),
    PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=(1,), leader=1, eligible_leader_replicas=(2,)),
    ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value="2"),
    ConfigRecord(resource_type=16, resource_name="x", name="metrics", value="1"),
    ProducerIdsRecord(broker_id=1, broker_epoch=3, next_producer_id=2000),
    AclRecord(
        acl_id=ACL_ID,
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    ),
)


def image_of_everything() -> Image:
    image = Image()
    for record in EVERYTHING:
        image.apply(record)
    return image


VOTERS = (
    None,
    Assignment((1, 2, 3), (3, 4)),
    Assignment((1,), None, (VoterNode(ReplicaKey(1, TOPIC_ID), "n1", 9093),)),
)


@pytest.mark.parametrize("assignment", VOTERS)
def test_a_snapshot_holds_the_image_and_the_voters(assignment: Assignment | None) -> None:
    data = snapshot_data(image_of_everything(), assignment, SnapshotId(40, 2), "c", 5)
    assert contents(data) == Contents(image_of_everything(), assignment)
    found = list(heads(data))
    assert {(head.leader_epoch, head.timestamp_ms) for head in found} == {(2, 5)}
    assert [head.is_control for head in found] == [True, False, True]
    assert [head.base_offset for head in found[1:]] == [head.last_offset + 1 for head in found[:-1]]


def test_a_large_snapshot_has_several_batches() -> None:
    image = Image()
    for number in range(2500):
        image.apply(ConfigRecord(resource_type=16, resource_name=f"r{number}", name="metrics", value="1"))
    data = snapshot_data(image, None, SnapshotId(9000, 2), "c", 0)
    assert [head.record_count for head in heads(data)] == [1, 1000, 1000, 500, 1]
    assert contents(data).image == image


def test_a_snapshot_that_is_cut_or_damaged_is_refused() -> None:
    data = snapshot_data(image_of_everything(), None, SnapshotId(40, 2), "c", 0)
    first, *_, last = heads(data)
    flipped = data[:100] + bytes([data[100] ^ 1]) + data[101:]
    for wrong in (data[:-1], data[: last.start], data[first.end :], flipped, b""):
        with pytest.raises(PeerFailure, match="reading a snapshot"):
            contents(wrong)


def log_of(*epochs: int) -> bytes:
    """A batch of two records of each epoch."""
    record = Record(None, b"")
    return b"".join(encode_batch([record, record], 2 * at, epoch, 0) for at, epoch in enumerate(epochs))


def test_a_log_continues_a_snapshot_if_it_has_its_last_record_or_begins_there() -> None:
    data = log_of(1, 1, 2, 2)
    behind = data[list(heads(data))[2].start :]
    assert continuing(data, SnapshotId(4, 1)) == behind
    assert continuing(behind, SnapshotId(4, 1)) == behind
    assert continuing(data, SnapshotId(4, 2)) == b"", "its record before offset 4 is of another epoch"
    assert continuing(data, SnapshotId(8, 2)) == b"", "it ends there"
    assert continuing(data, SnapshotId(20, 3)) == b"", "it ends before"
    assert continuing(b"", SnapshotId(4, 1)) == b""


def test_a_log_behind_a_snapshot_knows_the_snapshots_epoch() -> None:
    log = Log(b"", SnapshotId(4, 3))
    assert (log.end_offset, log.last_epoch, log.high_watermark, log.read_from(0)) == (4, 3, 4, b"")
    log.append(encode_batch([Record(None, b"")], 4, 5, 0))
    assert (log.end_offset, log.last_epoch, log.epoch_before(5)) == (5, 5, 5)
    log.truncate(4)
    assert (log.end_offset, log.size_of(4, 4)) == (4, 0)
    assert (log.end_offset, log.last_epoch) == (4, 3)


@pytest.mark.parametrize(
    ("offset", "epoch", "is_needed"),
    [(0, 0, True), (3, 3, True), (4, 2, True), (4, 3, False), (5, 3, False), (6, 2, True), (6, 5, False)],
)
def test_a_follower_needs_the_snapshot_if_its_log_does_not_reach_or_match_the_start(
    offset: int, epoch: int, is_needed: bool
) -> None:
    assert Log(b"", SnapshotId(4, 3)).needs_snapshot(offset, epoch) is is_needed
    assert not Log(log_of(1, 3)).needs_snapshot(offset, epoch), "a log from offset 0 on needs none"


def test_removing_what_a_snapshot_covers_leaves_positions_and_epochs_right() -> None:
    data, log = log_of(1, 1, 2, 4), Log(log_of(1, 1, 2, 4))
    sizes = [head.end - head.start for head in heads(data)]
    assert log.size_of(0, 4) == sum(sizes[:2])
    assert log.epoch_before(4) == 1
    log.remove_before(SnapshotId(4, 1))
    assert log.read_from(0) == data[sum(sizes[:2]) :]
    assert [log.epoch_end(epoch).end_offset for epoch in (1, 2, 3, 4)] == [4, 6, 6, 8]
    log.truncate(6)
    assert (log.end_offset, log.size_of(4, 6)) == (6, sizes[2])


def written(quorum: Simulation, count: int, key: str = "x") -> None:
    """Write this many values to a register, one after the other."""
    for number in range(count):
        operation = quorum.write(quorum.elect(), key, str(number))
        quorum.run_until(partial(is_answered, operation))
        assert operation.response.error is ErrorCode.none


def is_answered(operation: Operation) -> bool:
    return operation.response is not None


def test_every_node_makes_snapshots_of_what_is_committed_and_removes_the_log_below() -> None:
    quorum = Simulation(**SMALL)
    written(quorum, 60)
    quorum.run(1000)
    for node, member in quorum.members.items():
        assert member.snapshot is not None
        log = quorum.node(node).log
        assert member.snapshot.id.end_offset == log.start.end_offset > 0
        assert [head.base_offset for head in heads(bytes(member.log))][:1] in ([], [log.start.end_offset])
    assert quorum.violations == []


def test_a_log_below_the_retention_stays_though_a_snapshot_covers_it() -> None:
    quorum = Simulation(**SMALL | {"retention_bytes": 1_000_000})
    written(quorum, 60)
    assert all(member.snapshot is not None for member in quorum.members.values())
    assert all(quorum.node(node).log.start.end_offset == 0 for node in quorum.members)


def test_a_snapshot_is_made_after_the_interval_if_there_are_records() -> None:
    quorum = Simulation(snapshot_interval_ms=20_000, max_idle_interval_ms=0)
    quorum.elect()
    quorum.run(10_000)
    assert [member.snapshot for member in quorum.members.values()] == [None] * 3
    quorum.run(12_000)
    snapshots = [member.snapshot for member in quorum.members.values()]
    assert all(snapshot is not None for snapshot in snapshots)
    quorum.run(60_000)
    assert [member.snapshot for member in quorum.members.values()] == snapshots, "nothing new was committed"


def test_a_restarted_node_has_the_metadata_of_its_snapshot() -> None:
    quorum = Simulation(**SMALL)
    written(quorum, 60)
    for node in quorum.members:
        quorum.crash(node)
    for node in quorum.members:
        quorum.restart(node)
    assert {value_of(quorum.read(node, "x"), "x") for node in quorum.members} <= {str(n) for n in range(60)}
    leader = quorum.elect()
    assert value_of(quorum.read(leader, "x"), "x") == "59"
    assert quorum.violations == []


@pytest.mark.parametrize("piece_bytes", [8 << 20, 100])
def test_a_follower_that_is_behind_the_leaders_log_fetches_the_snapshot(piece_bytes: int) -> None:
    quorum = Simulation(**SMALL, fetch_snapshot_max_bytes=piece_bytes)
    behind = next(node for node in quorum.members if node != quorum.elect())
    quorum.crash(behind)
    written(quorum, 60)
    quorum.restart(behind)
    leader = quorum.elect()
    quorum.run_until(lambda: quorum.node(behind).log.end_offset == quorum.node(leader).log.end_offset)
    requests = quorum.members[behind].effects.count("FetchSnapshotRequest")
    assert requests == 1 if piece_bytes > 10_000 else requests > 1
    assert value_of(quorum.read(behind, "x"), "x") == "59"
    assert quorum.violations == []


def test_a_follower_with_an_empty_disk_and_one_with_a_diverging_log_fetch_the_snapshot() -> None:
    quorum = Simulation(**SMALL)
    former = quorum.elect()
    quorum.isolate(former)
    quorum.write(former, "x", "lost")  # appended, never committed
    quorum.run(5000)
    written(quorum, 60)
    quorum.heal()
    empty = next(node for node in quorum.members if node not in (former, quorum.elect()))
    quorum.crash(empty)
    quorum.lose_disk(empty)
    quorum.restart(empty)
    quorum.run(5000)
    ends = {quorum.node(node).log.end_offset for node in quorum.members}
    assert len(ends) == 1, quorum.describe()
    assert {value_of(quorum.read(node, "x"), "x") for node in quorum.members} == {"59"}
    assert all("FetchSnapshotRequest" in quorum.members[node].effects for node in (former, empty))
    assert quorum.violations == []


def test_a_download_ends_with_its_leaders_epoch() -> None:
    quorum = Simulation(**SMALL, fetch_snapshot_max_bytes=50)
    first = quorum.elect()
    behind = next(node for node in quorum.members if node != first)
    quorum.crash(behind)
    written(quorum, 60)
    quorum.restart(behind)
    quorum.run_until(lambda: "FetchSnapshotRequest" in quorum.members[behind].effects)
    quorum.crash(quorum.elect())
    quorum.run_until(lambda: quorum.leader() is not None, 30_000)
    quorum.run(5000)
    leader = quorum.elect()
    quorum.run_until(lambda: quorum.node(behind).log.end_offset == quorum.node(leader).log.end_offset)
    assert quorum.violations == []


def test_a_new_voter_and_one_that_returns_learn_the_voters_from_the_snapshot() -> None:
    quorum = Simulation(size=3, observers=1, voter_changes="kip-642", **SMALL)
    leader = quorum.elect()
    quorum.crash(4)
    gone = next(node for node in (1, 2, 3) if node != leader)
    quorum.restart(4)
    operation = quorum.reassign(leader, 1, 2, 3, 4)
    quorum.run_until(lambda: operation.response is not None)
    quorum.run(3000)
    quorum.crash(gone)
    written(quorum, 80)
    assert quorum.node(quorum.elect()).log.start.end_offset > 0
    quorum.lose_disk(gone)
    quorum.restart(gone)
    quorum.run(5000)
    assert {quorum.node(node).voters.ids for node in quorum.members} == {(1, 2, 3, 4)}
    quorum.crash(gone)
    quorum.restart(gone)
    assert quorum.node(gone).voters.ids == (1, 2, 3, 4)
    assert quorum.violations == []


def leader_with_snapshot() -> tuple[Simulation, int, SnapshotId]:
    quorum = Simulation(**SMALL)
    written(quorum, 60)
    leader = quorum.elect()
    snapshot = quorum.members[leader].snapshot
    assert snapshot is not None
    return quorum, leader, snapshot.id


def test_a_leader_answers_a_fetch_below_its_log_with_the_snapshots_id() -> None:
    quorum, leader, snapshot_id = leader_with_snapshot()
    epoch = quorum.node(leader).state.epoch
    operation = quorum.invoke(leader, FetchRequest("test", 9, epoch, 1, 1, 0, 1000))
    assert (operation.response.error, operation.response.snapshot_id) == (ErrorCode.none, snapshot_id)
    assert (operation.response.data, operation.response.diverging) == (b"", None)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({}, ErrorCode.none),
        ({"position": 10**6}, ErrorCode.position_out_of_range),
        ({"position": -1}, ErrorCode.position_out_of_range),
        ({"snapshot_id": SnapshotId(1, 1)}, ErrorCode.snapshot_not_found),
        ({"epoch": 0}, ErrorCode.fenced_leader_epoch),
        ({"epoch": 99}, ErrorCode.unknown_leader_epoch),
        ({"cluster_id": "other"}, ErrorCode.inconsistent_cluster_id),
    ],
)
def test_a_leader_serves_pieces_of_its_latest_snapshot(changed: dict[str, object], error: ErrorCode) -> None:
    quorum, leader, snapshot_id = leader_with_snapshot()
    fields = {"cluster_id": "test", "replica_id": 9, "epoch": quorum.node(leader).state.epoch}
    fields |= {"snapshot_id": snapshot_id, "position": 10, "max_bytes": 20} | changed
    response = quorum.invoke(leader, FetchSnapshotRequest(**fields)).response  # type: ignore[arg-type]
    snapshot = quorum.members[leader].snapshot
    assert response.error is error
    assert snapshot is not None
    if error is ErrorCode.none:
        assert (response.data, response.size) == (snapshot.data[10:30], len(snapshot.data))


def test_a_follower_does_not_serve_snapshots() -> None:
    quorum, leader, snapshot_id = leader_with_snapshot()
    follower = next(node for node in quorum.members if node != leader)
    state = quorum.node(follower).state
    assert isinstance(state, Follower)
    request = FetchSnapshotRequest("test", 9, state.epoch, snapshot_id, 0, 100)
    response = quorum.invoke(follower, request).response
    assert (response.error, response.leader_id) == (ErrorCode.not_leader_or_follower, leader)


def test_a_snapshot_of_records_that_are_not_committed_replaces_others() -> None:
    quorum = Simulation(**SMALL, mutant="snapshot-of-uncommitted-records")
    former = quorum.elect()
    quorum.isolate(former)
    for number in range(60):
        quorum.write(former, "x", f"lost {number}")
    snapshot = quorum.members[former].snapshot
    assert snapshot is not None
    held = max(quorum.node(node).log.end_offset for node in quorum.members if node != former)
    assert held < 10 < snapshot.id.end_offset, "nobody else has these records"
    correct = Simulation(**SMALL)
    former = correct.elect()
    correct.isolate(former)
    for number in range(60):
        correct.write(former, "x", f"lost {number}")
    assert correct.members[former].snapshot is None


@pytest.mark.parametrize("mutant", [None, "voters-of-snapshot-ignored"])
def test_a_node_that_keeps_the_voters_of_its_former_log_acts_on_wrong_ones(mutant: str | None) -> None:
    quorum = Simulation(size=3, observers=1, voter_changes="kip-642", mutant=mutant, **SMALL)
    leader = quorum.elect()
    gone = next(node for node in (1, 2, 3) if node != leader)
    quorum.crash(gone)
    operation = quorum.reassign(leader, *(node for node in quorum.members if node != gone))
    quorum.run_until(lambda: operation.response is not None)
    written(quorum, 80)
    quorum.restart(gone)
    quorum.run(5000)
    assert "FetchSnapshotRequest" in quorum.members[gone].effects
    is_right = quorum.node(gone).voters.ids == quorum.node(quorum.elect()).voters.ids
    assert is_right is (mutant is None)
