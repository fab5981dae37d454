"""Carries out clients' operations on the replicas of topic partitions: moves, and reads of where a partition is.

    move        request that these brokers replicate the partition (KIP-455): key e.g. log-2, value the node ids
    partition   read where the partition is
    moved       the same, once no reassignment of it is ongoing and all brokers know where it is

A move that ends in ok is committed. Its value is {"epoch": the leader's epoch after that}, as of changes of voters
(nodes.probe.voter_session), and so are the rules for outcomes that are not known. The value of a read is
{"leader", "epoch", "replicas", "target"}: target is what an ongoing reassignment ends with. Both are null if brokers do
not agree yet. A read in whose course another node came to lead, or the epoch changed, ends in fail.

Contains operations. Requests are in nodes.kafka.partition_moves; the check is checkers.quorum.voter_changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from harness.model import Op, PeerFailure
from harness.model.faults.membership import Placement
from harness.model.session import Connection
from nodes.probe import voter_session
from nodes.probe.voter_session import Leaders, at_leader


class Moves(Protocol):
    """How partitions are moved, and where they are."""

    async def move(self, leader: int, op: Op) -> None:
        """Request a move; returns once it is committed.

        Raises Refused, NotSent, or another PeerFailure if it may have taken effect.
        """

    async def placement(self, leader: int, op: Op) -> Placement:
        """Where the partition is, as the active controller on this node knows. Raises PeerFailure if there is none."""

    async def close(self) -> None:
        """Close every connection."""


class PartitionSession:
    """harness.model.session.Session for the operations above."""

    def __init__(self, nodes: Sequence[int], connect: Callable[[int], Connection], process: int, moves: Moves) -> None:
        """connect makes a connection to a controller's listener; moves has connections of its own."""
        self._leaders, self._moves = Leaders(nodes, connect, process), moves

    async def invoke(self, op: Op) -> Op:
        """Carry out one operation."""
        if op.f == "move":
            leading = await self._leaders.until(lambda _: True)
            return (
                op.fail("no leader") if leading is None else await self._leaders.changed(op, leading, self._moves.move)
            )
        return await (self._report(op) if op.f == "partition" else self._settled(op))

    async def close(self) -> None:
        """Close every connection."""
        await self._moves.close()
        await self._leaders.close()

    async def _settled(self, op: Op) -> Op:
        """The first report that has replicas."""
        deadline = asyncio.get_running_loop().time() + voter_session.WAIT_SECONDS
        done = op.fail("not settled")
        while asyncio.get_running_loop().time() < deadline:
            done = await self._report(op)
            if done.type == "ok" and done.value["replicas"] is not None:
                return done
            await asyncio.sleep(voter_session.POLL_SECONDS)
        return op.fail(f"not settled: {done.error or done.value}")

    async def _report(self, op: Op) -> Op:
        """Where the partition is, if one node leads in one epoch from before the read to after it; one attempt."""
        before = await self._leaders.described()
        if before is None:
            return op.fail("no leader")
        op = at_leader(op, before)
        try:
            placement = await self._moves.placement(before.node, op)
        except PeerFailure as failure:
            return op.fail(str(failure))
        after = await self._leaders.described()
        if after is None or (after.node, after.described.epoch) != (before.node, before.described.epoch):
            return op.fail("the leader has changed")
        return op.ok({"leader": before.node, "epoch": before.described.epoch} | _as_value(placement))


def _as_value(placement: Placement) -> dict[str, Any]:
    return {
        "replicas": None if placement.replicas is None else list(placement.replicas),
        "target": None if placement.target is None else list(placement.target),
    }
