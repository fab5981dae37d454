"""Clients' operations on voters: what they wait for, what they request, and what each outcome means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.model import Op, PeerFailure
from harness.model.faults.membership import Refused
from harness.model.session import Connection, NoAnswer, NotSent
from nodes.observe.describe_quorum import QuorumDescription
from nodes.probe import voter_session
from nodes.probe.voter_session import VoterSession


def leads(
    *voters: int,
    epoch: int = 3,
    high_watermark: int = 10,
    end: int = 10,
    target: tuple[int, ...] = (),
    **observers: int,
) -> QuorumDescription:
    """Node 2 leads; observers have their log ends by name, n4=7."""
    seen = tuple((int(name[1:]), reached) for name, reached in observers.items())
    return QuorumDescription(None, 2, epoch, high_watermark, end, tuple((node, end) for node in voters), seen, target)


class Quorum:
    """Node 2 leads, and describes the quorum as one description after the other, the last one forever."""

    def __init__(self, *described: QuorumDescription, answer: Exception | None = None) -> None:
        self.described, self.answer = list(described), answer
        self.asked: list[int] = []
        self.requested: list[tuple[int, str]] = []

    def next(self) -> QuorumDescription:
        return self.described.pop(0) if len(self.described) > 1 else self.described[0]

    async def change(self, leader: int, op: Op) -> None:
        self.requested.append((leader, op.f))
        if self.answer is not None:
            raise self.answer

    async def close(self) -> None:
        self.requested.append((0, "closed"))


class NodeConnection:
    """A connection to one node; `described` answers its requests."""

    def __init__(self, node: int) -> None:
        self.node = node

    async def call(self, request: Any, timeout_ms: int) -> Any:
        raise AssertionError(f"expected no request, found {request} within {timeout_ms} ms")

    async def call_latest(self, api_key: int, values: Any, timeout_ms: int) -> Any:
        raise AssertionError(f"expected no request, found {api_key}: {values} within {timeout_ms} ms")

    async def close(self) -> None:
        return None


@pytest.fixture
def carry_out(monkeypatch: pytest.MonkeyPatch) -> Callable[[Quorum, Op], Op]:
    """Carries out one operation in a session of process 0."""
    monkeypatch.setattr(voter_session, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(voter_session, "WAIT_SECONDS", 0.1)

    def carried_out(quorum: Quorum, op: Op) -> Op:
        async def describe(connection: Connection, _timeout_ms: int) -> QuorumDescription:
            assert isinstance(connection, NodeConnection)
            quorum.asked.append(connection.node)
            if connection.node == 1:
                raise NotSent("connecting to n1: connection refused")
            return quorum.next() if connection.node == 2 else QuorumDescription("not_leader_or_follower")

        async def run() -> Op:
            session = VoterSession([1, 2, 3], NodeConnection, 0, quorum)
            try:
                return await session.invoke(op)
            finally:
                await session.close()

        monkeypatch.setattr(voter_session, "describe_quorum", describe)
        return asyncio.run(run())

    return carried_out


CarryOut = Callable[[Quorum, Op], Op]
VOTERS, SETTLE = Op("invoke", "voters", key="voters"), Op("invoke", "settle", key="voters")
ADD, REMOVE = Op("invoke", "add_voter", key="n4"), Op("invoke", "remove_voter", key="n4")
REASSIGN = Op("invoke", "reassign", key="voters", value=[4, 5])


def test_read_asks_one_node_and_the_next_one_if_that_does_not_lead(carry_out: CarryOut) -> None:
    quorum = Quorum(leads(1, 2, 3))
    done = carry_out(quorum, VOTERS)
    assert (done.type, done.error, quorum.asked) == ("fail", "no leader", [1])


def test_settled_quorum_has_no_target_and_a_committed_log(carry_out: CarryOut) -> None:
    quorum = Quorum(
        leads(1, 2, target=(4, 5)), leads(1, 2, high_watermark=9), leads(1, 2, high_watermark=-1), leads(4, 5)
    )
    done = carry_out(quorum, SETTLE)
    assert done.value == {"leader": 2, "epoch": 3, "voters": [4, 5], "target": None}
    assert (done.type, done.node, quorum.asked) == ("ok", 2, [1, 2, 2, 2, 2])


def test_quorum_that_does_not_settle_is_a_failure(carry_out: CarryOut) -> None:
    assert carry_out(Quorum(leads(1, 2, target=(4, 5))), SETTLE).error == "not settled"


def test_voter_is_added_once_it_has_caught_up(carry_out: CarryOut) -> None:
    quorum = Quorum(leads(1, 2, n4=3), leads(1, 2, end=12, n4=9), leads(1, 2, end=12, n4=10), leads(1, 2, 4, epoch=4))
    done = carry_out(quorum, ADD)
    assert (done.type, done.value, done.node) == ("ok", {"epoch": 4}, 2)
    assert quorum.requested == [(2, "add_voter"), (0, "closed")]
    assert len(quorum.asked) == 5


def test_voter_that_does_not_catch_up_is_not_requested(carry_out: CarryOut) -> None:
    quorum = Quorum(leads(1, 2, n4=3))
    done = carry_out(quorum, ADD)
    assert (done.type, done.error, quorum.requested) == ("fail", "n4 does not catch up", [(0, "closed")])


@pytest.mark.parametrize(("op", "voters"), [(ADD, (1, 2, 4)), (REMOVE, (1, 2))])
def test_change_that_is_done_already_is_ok_once_it_is_committed(
    carry_out: CarryOut, op: Op, voters: tuple[int, ...]
) -> None:
    quorum = Quorum(leads(*voters, high_watermark=9), leads(*voters, high_watermark=9), leads(*voters, end=11))
    done = carry_out(quorum, op)
    assert (done.type, done.value, quorum.requested) == ("ok", {"epoch": 3}, [(0, "closed")])
    uncommitted = carry_out(Quorum(leads(*voters, high_watermark=9)), op)
    assert (uncommitted.type, uncommitted.error) == ("fail", "not committed")
    other_epoch = carry_out(Quorum(leads(*voters, high_watermark=9), leads(*voters, epoch=4)), op)
    assert (other_epoch.type, other_epoch.error) == ("fail", "not committed")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, "ok"),
        (Refused("DUPLICATE_VOTER", "DUPLICATE_VOTER"), "fail"),
        (NotSent("connecting to n2: connection refused"), "fail"),
        (Refused("late", "REQUEST_TIMED_OUT"), "info"),
        (Refused("deposed", "NOT_LEADER_OR_FOLLOWER"), "info"),
        (NoAnswer("waiting for n2: timed out"), "info"),
        (PeerFailure("n2 knows no n4"), "info"),
    ],
)
def test_outcome_says_whether_the_change_may_have_taken_effect(
    carry_out: CarryOut, answer: Exception | None, expected: str
) -> None:
    done = carry_out(Quorum(leads(1, 2, 4), answer=answer), REMOVE)
    assert done.type == expected
    assert done.error == (None if answer is None else str(answer))


def test_acknowledged_change_is_compared_with_leaders_of_no_earlier_epoch(carry_out: CarryOut) -> None:
    done = carry_out(Quorum(leads(1, 2, epoch=7), leads(1, 2, epoch=6), leads(4, 5, epoch=8)), REASSIGN)
    assert (done.type, done.value) == ("ok", {"epoch": 8})
    lost = carry_out(Quorum(leads(1, 2, epoch=7), QuorumDescription("not_leader_or_follower")), REASSIGN)
    assert (lost.type, lost.value) == ("ok", {"epoch": None})
