"""Carries out clients' operations on the voters of a quorum: changes, and reads of what the leader reports.

    reassign        request that these nodes become the voters (KIP-642): key "voters", value the node ids
    add_voter       add one voter (KIP-853): the key is the node, e.g. n4
    remove_voter    remove one voter (KIP-853)
    voters          read the voters, committed or not, that a leader reports (KIP-595, DescribeQuorum)
    settle          the same, once no reassignment is pending and everything that the leader had is committed

A change that ends in ok is committed. Its value is {"epoch": the leader's epoch after that}, null if no leader could be
described then. The value of a read is {"leader", "epoch", "voters", "target"}. Before a voter is added it must have
what the leader had when the operation began. A voter that is added already, or removed, is not requested again: the
operation ends in ok once the leader's log is committed as far as it reached.

A refusal that a leader may have sent after it had appended the change ends in info.

Contains operations. Requests of a change are in nodes.kafka.membership and nodes.probe.voters; the check is
checkers.quorum.voter_changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.model import Op, PeerFailure
from harness.model.faults.membership import Refused
from harness.model.session import Connection, NotSent
from nodes.observe.describe_quorum import QuorumDescription, describe_quorum

CALL_MS = 1_000
POLL_SECONDS = 0.1
WAIT_SECONDS = 5.0
"""How long one operation waits for a leader, for a new voter to catch up, or for a commit, before it fails."""
UNCERTAIN = ("REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER", "NOT_CONTROLLER", "UNKNOWN_SERVER_ERROR")
"""Refusals that do not prove that the change was not appended."""
KEY = "voters"
"""The key of operations on all voters."""


class Changes(Protocol):
    """How the voters of a kind of quorum are changed."""

    async def change(self, leader: int, op: Op) -> None:
        """Request the change of an operation; returns once it is committed.

        Raises Refused, NotSent, or another PeerFailure if it may have taken effect.
        """

    async def close(self) -> None:
        """Close every connection."""


@dataclass(frozen=True, slots=True)
class Leading:
    """A node that leads, and its description of the quorum."""

    node: int
    described: QuorumDescription

    @property
    def voters(self) -> list[int]:
        """The voters."""
        return [node for node, _ in self.described.voters]

    @property
    def log_end(self) -> int:
        """The end of the leader's log; 0 if it does not know itself as a voter."""
        return self.described.log_end_offset or 0

    def ends(self) -> Mapping[int, int]:
        """How far the leader knows each replica's log to reach."""
        return dict((*self.described.voters, *self.described.observers))

    def as_value(self) -> dict[str, Any]:
        """The value of a read."""
        target = list(self.described.target) or None
        return {"leader": self.node, "epoch": self.described.epoch, "voters": self.voters, "target": target}


class Leaders:
    """Finds the node that leads, and what it reports; nodes are asked one after another until one leads."""

    def __init__(self, nodes: Sequence[int], connect: Callable[[int], Connection], process: int) -> None:
        """connect makes a connection to a controller's listener; process decides which node is asked first."""
        self._nodes, self._connect, self._next = nodes, connect, process
        self._connections: dict[int, Connection] = {}
        self._leader: int | None = None

    async def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def until(self, is_met: Callable[[Leading], bool]) -> Leading | None:
        """The leader once it meets a condition; None if none does within WAIT_SECONDS."""
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            leading = await self.described()
            if leading is not None and is_met(leading):
                return leading
            await asyncio.sleep(POLL_SECONDS)
        return None

    async def described(self) -> Leading | None:
        """One node's description of the quorum, if it leads; another node is asked the next time if it does not."""
        node = self._nodes[self._next % len(self._nodes)] if self._leader is None else self._leader
        if node not in self._connections:
            self._connections[node] = self._connect(node)
        try:
            described = await describe_quorum(self._connections[node], CALL_MS)
        except PeerFailure:
            described = QuorumDescription("no answer")
        if described.error is None:
            self._leader = node
            return Leading(node, described)
        self._leader = None
        self._next += 1
        return None

    async def changed(self, op: Op, leading: Leading, change: Callable[[int, Op], Awaitable[None]]) -> Op:
        """Request a change of the leader, and the epoch once it is acknowledged."""
        op = at_leader(op, leading)
        try:
            await change(leading.node, op)
        except NotSent as failure:
            return op.fail(str(failure))
        except Refused as refusal:
            return op.info(str(refusal)) if refusal.error in UNCERTAIN else op.fail(str(refusal))
        except PeerFailure as failure:
            return op.info(str(failure))
        after = await self.until(lambda now: (now.described.epoch or 0) >= (leading.described.epoch or 0))
        return op.ok({"epoch": None if after is None else after.described.epoch})


class VoterSession:
    """harness.model.session.Session for the operations above."""

    def __init__(
        self, nodes: Sequence[int], connect: Callable[[int], Connection], process: int, changes: Changes
    ) -> None:
        """connect makes a connection to a controller's listener; changes has connections of its own."""
        self._leaders, self._changes = Leaders(nodes, connect, process), changes

    async def invoke(self, op: Op) -> Op:
        """Carry out one operation."""
        match op.f:
            case "voters":
                return await self._read(op)
            case "settle":
                return await self._settle(op)
            case "reassign":
                return await self._reassign(op)
            case _:
                return await self._change_one(op, int(str(op.key)[1:]), op.f == "add_voter")

    async def close(self) -> None:
        """Close every connection."""
        await self._changes.close()
        await self._leaders.close()

    async def _read(self, op: Op) -> Op:
        """What the leader reports; one attempt."""
        leading = await self._leaders.described()
        return op.fail("no leader") if leading is None else at_leader(op, leading).ok(leading.as_value())

    async def _settle(self, op: Op) -> Op:
        """What the leader reports once its log is committed and no reassignment is pending."""
        leading = await self._leaders.until(lambda now: not now.described.target and _is_committed(now, now.log_end))
        return op.fail("not settled") if leading is None else at_leader(op, leading).ok(leading.as_value())

    async def _reassign(self, op: Op) -> Op:
        """Request that these nodes become the voters."""
        leading = await self._leaders.until(lambda _: True)
        return (
            op.fail("no leader") if leading is None else await self._leaders.changed(op, leading, self._changes.change)
        )

    async def _change_one(self, op: Op, node: int, joins: bool) -> Op:
        """Add or remove one voter."""
        leading = await self._leaders.until(lambda _: True)
        if leading is None:
            return op.fail("no leader")
        if joins and node not in leading.voters:
            reached = leading.log_end
            leading = await self._leaders.until(lambda now: now.ends().get(node, -1) >= reached)
            if leading is None:
                return op.fail(f"n{node} does not catch up")
        if (node in leading.voters) is joins:
            return await self._confirmed(op, leading)
        return await self._leaders.changed(op, leading, self._changes.change)

    async def _confirmed(self, op: Op, leading: Leading) -> Op:
        """ok once everything that the leader had is committed in its epoch; nothing was requested, so else fail."""
        reached, epoch = leading.log_end, leading.described.epoch
        after = await self._leaders.until(lambda now: now.described.epoch == epoch and _is_committed(now, reached))
        return op.fail("not committed") if after is None else at_leader(op, after).ok({"epoch": epoch})


def _is_committed(now: Leading, offset: int) -> bool:
    return (now.described.high_watermark or 0) >= offset > 0


def at_leader(op: Op, leading: Leading) -> Op:
    return Op(op.type, op.f, op.process, op.key, op.value, leading.node)
