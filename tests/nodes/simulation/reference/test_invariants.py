"""Each invariant of a simulated quorum is reported when it is broken, and not otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.model.quorum_states import KIP_996, State
from nodes.reference.core.events import Assignment, Election
from nodes.reference.core.records.control import assignment_record
from nodes.reference.core.records.log import Log
from nodes.simulation.reference.invariants import Invariants
from nodes.wire.batches import Record, encode_batch


class Watched:
    """Invariants, and the names of those that were broken, each with the node."""

    def __init__(self) -> None:
        self.broken: list[tuple[str, int]] = []
        self.invariants = Invariants(lambda name, _message, node: self.broken.append((name, node)))


def batch(offset: int, epoch: int, value: bytes = b"v") -> bytes:
    return encode_batch([Record(b"k", value)], offset, epoch, 0)


def log_of(*batches: bytes, high_watermark: int = -1) -> Log:
    log = Log(b"".join(batches))
    log.high_watermark = high_watermark
    return log


def core(log: Log, *voters: int) -> Any:
    last = SimpleNamespace(assignment=Assignment(voters or (1, 2, 3)))
    return SimpleNamespace(log=log, voters=SimpleNamespace(last=last))


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
    watched.invariants.leads(2, log)
    assert [name for name, _ in watched.broken] == expected


@pytest.mark.parametrize(("held", "expected"), [((1, 2, 3), []), ((1, 2, 3, 4), ["voters-of-log"])])
def test_voters_that_the_log_does_not_say(held: tuple[int, ...], expected: list[str]) -> None:
    watched = Watched()
    log = log_of(encode_batch([assignment_record("c", Assignment((1, 2, 3)))], 0, 1, 0, True))
    watched.invariants.voters_of(1, core(log, *held))
    assert [name for name, _ in watched.broken] == expected
