"""Each invariant of a simulated quorum is reported when it is broken, and not otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.model.quorum_states import KIP_996, State
from nodes.reference.core.events import Assignment, Election, Snapshot
from nodes.reference.core.messages import Advertised, Change, SnapshotId
from nodes.reference.core.node import Node
from nodes.reference.core.records.control import assignment_record
from nodes.reference.core.records.entities import ConfigRecord
from nodes.reference.core.records.image import Image
from nodes.reference.core.records.log import Log
from nodes.reference.core.records.metadata import encode_config
from nodes.reference.core.records.snapshots import snapshot_data
from nodes.reference.core.roles.states import Leader
from nodes.simulation.reference.invariants import Invariants
from nodes.wire.batches import Record, encode_batch


class Watched:
    """Invariants, and the names of those that were broken, each with the node."""

    def __init__(self, are_voters_in_log: bool = False) -> None:
        self.broken: list[tuple[str, int]] = []
        self.invariants = Invariants(self._report, are_voters_in_log)

    def _report(self, name: str, _message: str, node: int) -> None:
        self.broken.append((name, node))


def batch(offset: int, epoch: int, value: bytes = b"v") -> bytes:
    return encode_batch([Record(b"k", value)], offset, epoch, 0)


def assigned(offset: int, epoch: int, assignment: Assignment) -> bytes:
    return encode_batch([assignment_record("c", assignment)], offset, epoch, 0, True)


def led_from(offset: int) -> Leader:
    return Leader(2, 1, 1, offset, frozenset())


def log_of(*batches: bytes, high_watermark: int = -1) -> Log:
    log = Log(b"".join(batches))
    log.high_watermark = high_watermark
    return log


def core(log: Log, *voters: int, state: object = None) -> Any:
    held = SimpleNamespace(assignment=Assignment(voters or (1, 2, 3)))
    state = state or SimpleNamespace(epoch=log.last_epoch)
    return SimpleNamespace(log=log, voters=SimpleNamespace(effective=held), state=state)


def saved(*written: str, at: int, voters: Assignment | None = None) -> Snapshot:
    """A snapshot below offset `at`, of these values of one register."""
    image = Image()
    for value in written:
        image.apply(ConfigRecord(resource_type=16, resource_name="x", name="m", value=value))
    snapshot_id = SnapshotId(at, 1)
    return Snapshot(snapshot_id, snapshot_data(image, voters, snapshot_id, "c", 0))


VOTERS = Assignment((1, 2, 3))
IN_LOG = (
    assigned(0, 1, VOTERS),
    *(encode_batch([encode_config(Change("x", "m", value))], at, 1, 0) for at, value in enumerate(("1", "2"), 1)),
)


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (saved("1", "2", at=3, voters=VOTERS), []),
        (saved("1", at=2, voters=VOTERS), []),
        (saved("1", at=3, voters=VOTERS), ["snapshot-of-committed"]),
        (saved("1", "2", at=3), ["snapshot-of-committed"]),
        (saved("1", "2", at=3, voters=Assignment((1, 2))), ["snapshot-of-committed"]),
        (saved("1", "2", at=4, voters=VOTERS), ["snapshot-of-committed"]),
    ],
)
def test_a_snapshot_holds_what_the_committed_records_make(snapshot: Snapshot, expected: list[str]) -> None:
    watched = Watched()
    watched.invariants.saves(1, core(log_of(*IN_LOG, high_watermark=3)), snapshot, b"".join(IN_LOG))
    assert [name for name, _ in watched.broken] == expected


def test_the_voters_of_a_snapshot_count_where_the_log_begins_behind_it() -> None:
    watched, log = Watched(are_voters_in_log=True), log_of(*IN_LOG, high_watermark=3)
    watched.invariants.saves(1, core(log), saved("1", "2", at=3, voters=VOTERS), b"".join(IN_LOG))
    log.remove_before(SnapshotId(3, 1))
    watched.invariants.advanced(1, core(log, 1, 2, 3, state=led_from(0)))
    assert watched.broken == []
    watched.invariants.advanced(1, core(log, 1, 2, state=led_from(0)))
    assert watched.broken == [("voters-of-log", 1)]


@pytest.mark.parametrize(("leaders", "expected"), [((1, 1), []), ((1, 2), [("election-safety", 2)])])
def test_two_leaders_of_an_epoch(leaders: tuple[int, int], expected: list[tuple[str, int]]) -> None:
    watched = Watched()
    for node in leaders:
        watched.invariants.started(node)
        watched.invariants.entered(node, None, State.UNATTACHED, 2, KIP_996)
        watched.invariants.entered(node, State.CANDIDATE, State.LEADER, 2, KIP_996)
    assert watched.broken == expected


@pytest.mark.parametrize(
    ("elections", "expected"),
    [
        ([Election(2, None, 3), Election(2, 3, 3), Election(4, None, 1)], []),
        ([Election(2), Election(1)], ["epoch-monotonic"]),
        ([Election(2, None, 3), Election(2, None, 1)], ["vote-once"]),
        ([Election(2, None, 3), Election(2, None, None)], ["vote-once"]),
        ([Election(2, 3), Election(2, 1)], ["one-leader-known"]),
    ],
)
def test_stored_election_state(elections: list[Election], expected: list[str]) -> None:
    watched = Watched()
    for election in elections:
        watched.invariants.persisted(1, election)
    assert [name for name, _ in watched.broken] == expected


def test_emptied_disk_may_vote_again() -> None:
    watched = Watched()
    watched.invariants.persisted(1, Election(2, None, 3))
    watched.invariants.lost_disk(1)
    watched.invariants.persisted(1, Election(1, None, 2))
    assert watched.broken == []


def test_transition_outside_the_table() -> None:
    watched = Watched()
    watched.invariants.entered(1, None, State.UNATTACHED, 1, KIP_996)
    watched.invariants.entered(1, State.UNATTACHED, State.LEADER, 1, KIP_996)
    assert watched.broken == [("state-transition", 1)]


def test_different_batches_of_one_offset_and_epoch() -> None:
    watched = Watched()
    watched.invariants.appended(1, batch(0, 1) + batch(1, 1))
    watched.invariants.appended(2, batch(0, 1) + batch(1, 2, b"other"))
    assert watched.broken == []
    watched.invariants.appended(3, batch(1, 1, b"other"))
    assert watched.broken == [("log-matching", 3)]


def test_committed_records_differ() -> None:
    watched = Watched()
    watched.invariants.advanced(1, core(log_of(batch(0, 1), batch(1, 1), high_watermark=2)))
    watched.invariants.advanced(2, core(log_of(batch(0, 1), batch(1, 1), high_watermark=1)))
    assert watched.broken == []
    watched.invariants.advanced(3, core(log_of(batch(0, 1), batch(1, 2, b"other"), high_watermark=2)))
    assert watched.broken == [("state-machine-safety", 3)]


def test_high_watermark_that_falls() -> None:
    watched = Watched()
    watched.invariants.advanced(1, core(log_of(batch(0, 1), batch(1, 1), high_watermark=2)))
    watched.invariants.advanced(1, core(log_of(batch(0, 1), batch(1, 1), high_watermark=1)))
    assert watched.broken == [("high-watermark-monotonic", 1)]
    watched.invariants.started(1)
    watched.invariants.advanced(1, core(log_of(batch(0, 1), batch(1, 1), high_watermark=1)))
    assert len(watched.broken) == 1


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (log_of(batch(0, 1), batch(1, 1), batch(2, 1)), []),
        (log_of(batch(0, 1)), ["leader-completeness"]),
        (log_of(batch(0, 1), batch(1, 2, b"other")), ["leader-completeness"]),
    ],
)
def test_new_leader_without_a_committed_record(log: Log, expected: list[str]) -> None:
    watched = Watched()
    watched.invariants.advanced(1, core(log_of(batch(0, 1), batch(1, 1), high_watermark=2)))
    watched.invariants.leads(2, log, epoch=2)
    assert [name for name, _ in watched.broken] == expected


def test_leader_of_an_earlier_epoch_lacks_what_a_later_one_committed() -> None:
    """Its votes arrived late, when the leader of epoch 3 had committed a record."""
    watched = Watched()
    watched.invariants.advanced(1, core(log_of(batch(0, 1), batch(1, 3), high_watermark=2)))
    watched.invariants.leads(2, log_of(batch(0, 1)), epoch=2)
    assert watched.broken == []
    watched.invariants.leads(2, log_of(batch(0, 1)), epoch=4)
    assert watched.broken == [("leader-completeness", 2)]


@pytest.mark.parametrize(("held", "expected"), [((1, 2, 3), []), ((1, 2, 3, 4), ["voters-of-log"])])
def test_voters_that_the_log_does_not_say(held: tuple[int, ...], expected: list[str]) -> None:
    watched = Watched()
    log = log_of(assigned(0, 1, Assignment((1, 2, 3))))
    for _ in range(2):
        watched.invariants.advanced(1, core(log, *held))
    assert [name for name, _ in watched.broken] == expected


def test_voters_after_a_truncation_are_those_of_what_is_left() -> None:
    watched = Watched()
    first, second = assigned(0, 1, Assignment((1, 2, 3))), assigned(1, 1, Assignment((1, 2, 3, 4)))
    watched.invariants.advanced(1, core(log_of(first), 1, 2, 3))
    watched.invariants.appended(1, second)
    watched.invariants.advanced(1, core(log_of(first, second), 1, 2, 3, 4))
    watched.invariants.truncated(1)
    watched.invariants.advanced(1, core(log_of(first), 1, 2, 3))
    assert watched.broken == []
    watched.invariants.advanced(1, core(log_of(first), 1, 2, 3, 4))
    assert watched.broken == [("voters-of-log", 1)]


@pytest.mark.parametrize(
    ("after", "high_watermark", "expected"),
    [
        pytest.param(Assignment((1, 2, 3), (4, 2, 3)), 1, [], id="a target is no change"),
        pytest.param(Assignment((1, 2, 3, 4)), 3, [], id="a change"),
        pytest.param(Assignment((1, 2, 3, 4)), 2, ["one-change-at-a-time"], id="before a record of the epoch"),
    ],
)
def test_a_change_before_a_record_of_the_epoch(after: Assignment, high_watermark: int, expected: list[str]) -> None:
    watched = Watched()
    before = assigned(0, 1, Assignment((1, 2, 3))), batch(1, 1), batch(2, 2)
    log = log_of(*before, high_watermark=high_watermark)
    watched.invariants.wrote(1, core(log, state=led_from(2)), assigned(3, 2, after))
    assert [name for name, _ in watched.broken] == expected


def test_a_change_before_the_previous_one_is_committed() -> None:
    watched = Watched()
    before = batch(0, 1), assigned(1, 1, Assignment((1, 2, 3)))
    log = log_of(*before, high_watermark=1)
    watched.invariants.wrote(1, core(log, state=led_from(0)), assigned(2, 1, Assignment((1, 2, 3, 4))))
    assert watched.broken == [("one-change-at-a-time", 1)]


@pytest.mark.parametrize(
    ("target", "high_watermark", "expected"),
    [
        ((4, 5), 2, []),
        ((1, 2, 3), 2, []),
        (None, 2, []),
        ((4, 5), 1, ["acknowledged-change"]),
        ((4, 6), 2, ["acknowledged-change"]),
    ],
)
def test_an_acknowledged_change_is_committed(
    target: tuple[int, ...] | None, high_watermark: int, expected: list[str]
) -> None:
    watched = Watched()
    written = assigned(0, 1, Assignment((1, 2, 3))), assigned(1, 1, Assignment((1, 2, 3), (4, 5)))
    watched.invariants.acknowledged(1, core(log_of(*written, high_watermark=high_watermark)), target)
    assert [name for name, _ in watched.broken] == expected


@pytest.mark.parametrize(
    ("is_leader", "batches", "expected"),
    [
        (True, (assigned(0, 1, Assignment((1, 2, 3))), batch(1, 1)), []),
        (True, (batch(0, 1), batch(1, 1)), [("voters-in-log", 1)]),
        (False, (batch(0, 1), batch(1, 1)), []),
    ],
)
def test_a_leader_has_the_voters_in_its_log(is_leader: bool, batches: Any, expected: list[tuple[str, int]]) -> None:
    watched = Watched(are_voters_in_log=True)
    node = core(log_of(*batches, high_watermark=2), state=led_from(0) if is_leader else None)
    watched.invariants.advanced(1, node)
    assert watched.broken == expected


@pytest.mark.parametrize(("known", "expected"), [((2,), []), ((), [("election-after-discovery", 1)])])
def test_an_election_before_a_majority_is_found(known: tuple[int, ...], expected: list[tuple[str, int]]) -> None:
    watched = Watched()
    voters = SimpleNamespace(ids=(1, 2, 3), majority=2)
    watched.invariants.begins_election(1, cast(Node, SimpleNamespace(voters=voters, known=dict.fromkeys(known))))
    assert watched.broken == expected


def address(node: int, boot_ms: int) -> Advertised:
    return Advertised(node, f"n{node}", 9093, boot_ms)


@pytest.mark.parametrize(
    ("told", "known", "expected"),
    [
        ([address(2, 5)], address(2, 5), []),
        ([address(2, 5)], address(2, 7), []),
        ([address(2, 5)], None, [("address-known", 1)]),
        ([address(2, 3)], address(2, 3), [("address-known", 1)]),  # before, it was told of a later one
        ([address(1, 5)], None, []),  # of the node itself
    ],
)
def test_the_latest_address_is_known(
    told: list[Advertised], known: Advertised | None, expected: list[tuple[str, int]]
) -> None:
    watched = Watched()
    if told == [known]:
        watched.invariants.told(1, cast(Node, SimpleNamespace(known={2: address(2, 5)})), [address(2, 5)])
    watched.invariants.told(1, cast(Node, SimpleNamespace(known={2: known} if known else {})), told)
    assert watched.broken == expected


def test_a_restarted_node_need_not_know_what_it_was_told_before() -> None:
    watched = Watched()
    watched.invariants.told(1, cast(Node, SimpleNamespace(known={2: address(2, 5)})), [address(2, 5)])
    watched.invariants.started(1)
    watched.invariants.told(1, cast(Node, SimpleNamespace(known={2: address(2, 3)})), [address(2, 3)])
    assert watched.broken == []
