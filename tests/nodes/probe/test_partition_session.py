"""Clients' operations on partitions: what a report needs, and what each outcome of a move means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from harness.model import Op, PeerFailure
from harness.model.faults.membership import Placement, Refused
from harness.model.session import Connection, NotSent
from nodes.observe.describe_quorum import QuorumDescription
from nodes.probe import voter_session
from nodes.probe.partition_session import PartitionSession

PARTITION, MOVED = Op("invoke", "partition", key="log-2"), Op("invoke", "moved", key="log-2")
MOVE = Op("invoke", "move", key="log-2", value=[4, 5])


def leads(node: int, epoch: int = 3) -> QuorumDescription:
    return QuorumDescription(None, node, epoch, 10, 10, ((1, 10), (2, 10)))


class Partitions:
    """Answers requests for moves, and for placements one after another, the last one forever."""

    def __init__(self, *placements: Placement, answer: Exception | None = None) -> None:
        self.placements, self.answer = list(placements), answer
        self.requested: list[tuple[int, str]] = []

    async def move(self, leader: int, op: Op) -> None:
        self.requested.append((leader, str(op.key)))
        if self.answer is not None:
            raise self.answer

    async def placement(self, leader: int, op: Op) -> Placement:
        self.requested.append((leader, str(op.key)))
        if self.answer is not None:
            raise self.answer
        return self.placements.pop(0) if len(self.placements) > 1 else self.placements[0]

    async def close(self) -> None:
        self.requested.append((0, "closed"))


CarryOut = Callable[..., Op]


@pytest.fixture
def carry_out(monkeypatch: pytest.MonkeyPatch) -> CarryOut:
    """Carries out one operation; the node that is asked describes the quorum so, the last description forever."""
    monkeypatch.setattr(voter_session, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(voter_session, "WAIT_SECONDS", 0.1)

    def carried_out(partitions: Partitions, op: Op, *described: QuorumDescription) -> Op:
        waiting = list(described or [leads(1)])

        async def describe(_connection: Connection, _timeout_ms: int) -> QuorumDescription:
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]

        def connect(_node: int) -> Connection:
            return partitions  # type: ignore[return-value]  # only closed

        async def run() -> Op:
            session = PartitionSession([1, 2, 3], connect, 0, partitions)
            try:
                return await session.invoke(op)
            finally:
                await session.close()

        monkeypatch.setattr(voter_session, "describe_quorum", describe)
        return asyncio.run(run())

    return carried_out


@pytest.mark.parametrize(
    ("placement", "shown"),
    [
        (Placement(target=(4, 5)), {"replicas": None, "target": [4, 5]}),
        (Placement(replicas=(1, 2)), {"replicas": [1, 2], "target": None}),
        (Placement(), {"replicas": None, "target": None}),
    ],
)
def test_report_says_where_the_partition_is_and_in_which_epoch(
    carry_out: CarryOut, placement: Placement, shown: dict[str, object]
) -> None:
    done = carry_out(Partitions(placement), PARTITION)
    assert (done.type, done.value, done.node) == ("ok", {"leader": 1, "epoch": 3} | shown, 1)


@pytest.mark.parametrize("after", [leads(1, epoch=4), QuorumDescription("not_leader_or_follower")])
def test_report_that_spans_two_epochs_is_none(carry_out: CarryOut, after: QuorumDescription) -> None:
    done = carry_out(Partitions(Placement(replicas=(1, 2))), PARTITION, leads(1), after)
    assert (done.type, done.error) == ("fail", "the leader has changed")


def test_report_without_the_active_controller_is_a_failure(carry_out: CarryOut) -> None:
    refused = Refused("reassigning partitions: not_controller", "NOT_CONTROLLER")
    assert carry_out(Partitions(answer=refused), PARTITION).type == "fail"
    assert carry_out(Partitions(), PARTITION, QuorumDescription("not_leader_or_follower")).error == "no leader"


def test_partition_has_moved_once_all_brokers_know_its_replicas(carry_out: CarryOut) -> None:
    partitions = Partitions(Placement(target=(4, 5)), Placement(), Placement(replicas=(4, 5)))
    done = carry_out(partitions, MOVED)
    assert (done.type, done.value["replicas"]) == ("ok", [4, 5])
    assert len(partitions.requested) == 5  # three reports; moves and, as the connection, it are closed


def test_partition_that_does_not_settle_is_a_failure(carry_out: CarryOut) -> None:
    done = carry_out(Partitions(Placement(target=(4, 5))), MOVED)
    assert done.type == "fail"
    assert str(done.error).startswith("not settled: {")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, "ok"),
        (Refused("no broker 9", "INVALID_REPLICA_ASSIGNMENT"), "fail"),
        (NotSent("connecting to n1: connection refused"), "fail"),
        (Refused("deposed", "NOT_CONTROLLER"), "info"),
        (PeerFailure("waiting for n1: timed out"), "info"),
    ],
)
def test_outcome_says_whether_the_move_may_have_taken_effect(
    carry_out: CarryOut, answer: Exception | None, expected: str
) -> None:
    done = carry_out(Partitions(answer=answer), MOVE)
    assert done.type == expected
    assert done.value == ({"epoch": 3} if answer is None else [4, 5])
