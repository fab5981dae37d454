"""Each rule about what a simulated node tells others and clients is reported when it is broken, and not otherwise."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.reference.core.events import Election
from nodes.reference.core.messages import Change, FetchRequest, ReplicaKey, VoteRequest
from nodes.reference.core.records.applied import AppliedMetadata
from nodes.reference.core.records.log import Log
from nodes.reference.core.records.metadata import encode_config
from nodes.reference.core.roles.states import Candidate, Leader, Prospective
from nodes.reference.core.settings import NodeSettings
from nodes.simulation.reference.promises import Promises
from nodes.wire.batches import encode_batch

SETTINGS = NodeSettings(1, (1, 2, 3, 4, 5), "c", fetch_timeout_ms=1000)
TIMEOUT_MS = SETTINGS.check_quorum_timeout_ms
LEADS = Leader(2, 1, 1, 4, frozenset())


class Watched:
    """Promises, and the names of the rules that were broken, each with the node."""

    def __init__(self) -> None:
        self.broken: list[tuple[str, int]] = []
        self.promises = Promises(lambda name, _message, node: self.broken.append((name, node)))


def leader(high_watermark: int = 0, values: tuple[str, ...] = (), state: Any = LEADS) -> Any:
    """The core of n1, which leads epoch 2 from offset 4 on, with these values of one register in its log."""
    log = Log(
        b"".join(encode_batch([encode_config(Change("x", "m", value))], at, 2, 0) for at, value in enumerate(values))
    )
    log.high_watermark = high_watermark
    metadata = AppliedMetadata()
    metadata.advance(log, min(high_watermark, log.end_offset))
    others = tuple(map(ReplicaKey, (2, 3, 4, 5)))
    voters = SimpleNamespace(other_keys=others, majority=3, is_listed=True)
    return SimpleNamespace(log=log, state=state, voters=voters, metadata=metadata)


def vote_request(epoch: int, pre_vote: bool = False) -> VoteRequest:
    return VoteRequest("c", 2, 1, epoch, 1, 0, pre_vote)


@pytest.mark.parametrize(
    ("request_", "stored", "is_broken"),
    [
        (vote_request(3), Election(3, None, 1), False),
        (vote_request(3), Election(2, None, 1), True),
        (vote_request(3), Election(3, None, None), True),
        (vote_request(3, pre_vote=True), Election(3), False),
    ],
)
def test_a_vote_that_is_not_stored(request_: VoteRequest, stored: Election, is_broken: bool) -> None:
    watched = Watched()
    watched.promises.sends(1, request_, stored)
    assert watched.broken == [("vote-durable", 1)] * is_broken


@pytest.mark.parametrize(("high_watermarks", "is_broken"), [((2, 5), False), ((2, 4), True), ((4, 4), False)])
def test_a_leader_that_commits_records_of_earlier_epochs_alone(
    high_watermarks: tuple[int, ...], is_broken: bool
) -> None:
    watched = Watched()
    for high_watermark in high_watermarks:
        watched.promises.advanced(1, leader(high_watermark), SETTINGS, 0)
    assert watched.broken == [("commit-own-epoch", 1)] * is_broken


def test_what_a_leader_knew_before_its_election_may_be_of_earlier_epochs() -> None:
    watched = Watched()
    watched.promises.advanced(1, leader(2), SETTINGS, 0)
    watched.promises.started(1)
    watched.promises.advanced(1, leader(4), SETTINGS, 0)
    assert watched.broken == []


def fetch(node: int, epoch: int = 2) -> FetchRequest:
    return FetchRequest("c", node, epoch, 0, 0, 0, 1000)


@pytest.mark.parametrize(
    ("fetchers", "epoch", "is_broken"), [((2, 3), 2, False), ((2,), 2, True), ((2, 3), 1, True), ((2, 9), 2, True)]
)
def test_a_leader_without_fetches_from_a_majority(fetchers: tuple[int, ...], epoch: int, is_broken: bool) -> None:
    watched, core = Watched(), leader()
    for now_ms in range(0, 5 * TIMEOUT_MS, 100):
        for node in fetchers:
            watched.promises.fetched(1, fetch(node, epoch), now_ms)
        watched.promises.advanced(1, core, SETTINGS, now_ms)
    assert watched.broken == [("check-quorum", 1)] * is_broken


@pytest.mark.parametrize(
    "settings",
    [replace(SETTINGS, check_quorum=False), replace(SETTINGS, leader_without_majority="asks")],
)
def test_a_leader_that_need_not_resign(settings: NodeSettings) -> None:
    watched = Watched()
    for now_ms in (0, 5 * TIMEOUT_MS):
        watched.promises.advanced(1, leader(), settings, now_ms)
    assert watched.broken == []


def test_the_time_of_a_pause_does_not_count() -> None:
    watched = Watched()
    watched.promises.advanced(1, leader(), SETTINGS, 0)
    watched.promises.resumed(1, 5 * TIMEOUT_MS)
    watched.promises.advanced(1, leader(), SETTINGS, 5 * TIMEOUT_MS)
    assert watched.broken == []
    watched.promises.advanced(1, leader(), SETTINGS, 8 * TIMEOUT_MS)
    assert watched.broken == [("check-quorum", 1)]


@pytest.mark.parametrize(("value", "is_broken"), [("2", False), ("1", False), ("3", True), ("4", True)])
def test_a_write_that_is_acknowledged_and_not_committed(value: str, is_broken: bool) -> None:
    watched = Watched()  # "3" is in the log and not committed, "4" nowhere
    watched.promises.acknowledges(1, leader(2, ("1", "2", "3")), [Change("x", "m", value)])
    assert watched.broken == [("acknowledged-write", 1)] * is_broken


@pytest.mark.parametrize(
    ("mode", "committed_end", "is_broken"), [("read-index", 2, False), ("read-index", 3, True), ("local", 3, False)]
)
def test_a_read_without_what_was_committed(mode: Any, committed_end: int, is_broken: bool) -> None:
    watched = Watched()
    watched.promises.reads(1, leader(2, ("1", "2", "3")), replace(SETTINGS, read_mode=mode), committed_end)
    assert watched.broken == [("read-of-all-committed", 1)] * is_broken


ASKING = Prospective(3, None, None, 100, 100, frozenset({1}))


@pytest.mark.parametrize(
    ("after", "is_broken"),
    [(ASKING, True), (replace(ASKING, epoch=4), False), (Candidate(4, 1, 100, 100, 0, frozenset({1})), False)],
)
def test_a_prospective_that_stays_one_among_voters_without_pre_vote(after: Any, is_broken: bool) -> None:
    watched = Watched()
    watched.promises.unsupported(1, ASKING, after)
    assert watched.broken == [("pre-vote-fallback", 1)] * is_broken
