"""Quorum reassignment among real processes: voters move, addresses change, and the files say who votes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.model import PeerFailure
from nodes.observe.describe_quorum import QuorumDescription, describe_quorum
from nodes.wire import codec
from tests.nodes.reference.conftest import Processes, free_ports

NODES = (1, 2, 3, 4, 5, 6)
LIMIT_S = 20


class Movable(Processes):
    """Six processes; 1 to 3 vote at first. They find each other by gossip, from the ports of all at the beginning."""

    def __init__(self, directory: Path, **switches: object) -> None:
        super().__init__(directory, **{"reference.voter_changes": "kip-642"} | switches)
        self.ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        self.first_ports = dict(self.ports)

    def properties(self, node: int) -> str:
        """The node's properties file."""
        voters = ",".join(f"{voter}@127.0.0.1:{self.first_ports[voter]}" for voter in (1, 2, 3))
        servers = ",".join(f"127.0.0.1:{port}" for port in (*self.first_ports.values(), *self.ports.values()))
        lines = super().properties(node).splitlines()
        kept = [line for line in lines if not line.startswith("controller.quorum.voters")]
        added = [f"controller.quorum.voters={voters}", f"controller.quorum.bootstrap.servers={servers}"]
        return "".join(f"{line}\n" for line in [*kept, *added])

    async def described(self, holds: Callable[[QuorumDescription], bool]) -> QuorumDescription:
        """The leader's description of the quorum, once it is so."""
        deadline, seen = time.monotonic() + LIMIT_S, None
        while time.monotonic() < deadline:
            for node in self.running:
                connection = self.connection(node)
                try:
                    seen = await describe_quorum(connection, 1_000)
                except PeerFailure:
                    continue
                finally:
                    await connection.close()
                if seen.leader is not None and holds(seen):
                    return seen
            await asyncio.sleep(0.02)
        raise AssertionError(f"not so in {LIMIT_S} s: {seen}")

    async def reassign(self, node: int, voters: tuple[int, ...] | None) -> Any:
        """The partition's result of a request to one node."""
        partition = {"partition_index": 0, "replicas": voters}
        values = {"timeout": 5_000, "topics": [{"name": "__cluster_metadata", "partitions": [partition]}]}
        connection = self.connection(node)
        try:
            response = await connection.call_latest(codec.ALTER_PARTITION_REASSIGNMENTS, values, 6_000)
        finally:
            await connection.close()
        return response.responses[0].partitions[0]

    def quorum_state(self, node: int) -> dict[str, Any]:
        """The node's quorum-state."""
        path = self.directory / str(node) / "__cluster_metadata-0" / "quorum-state"
        state: dict[str, Any] = json.loads(path.read_text())
        return state


@pytest.fixture(name="movable")
def movable_processes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Movable]:
    """Processes, not yet started; killed after the test. Parametrize indirectly with switches."""
    processes = Movable(tmp_path, **getattr(request, "param", {}))
    yield processes
    for node in list(processes.running):
        processes.kill(node)


def voters(described: QuorumDescription) -> list[int]:
    """The ids of the voters."""
    return [node for node, _ in described.voters]


async def moved(processes: Movable, leader: int, target: tuple[int, ...]) -> QuorumDescription:
    """The description of the quorum once its voters are these."""
    result = await processes.reassign(leader, target)
    assert result.error_code is codec.ErrorCode.none, result.error_message
    return await processes.described(lambda seen: voters(seen) == [*target] and not seen.target)


def test_all_voters_are_replaced_and_the_old_ones_can_be_killed(movable: Movable) -> None:
    async def use() -> None:
        movable.start(*NODES)
        leader, _ = await movable.leader({1, 2, 3})
        seen = await moved(movable, leader, (4, 5, 6))
        assert seen.leader in (4, 5, 6)
        for node in (1, 2, 3):
            movable.kill(node)
        assert seen.leader is not None
        movable.kill(seen.leader)
        successor, _ = await movable.leader({4, 5, 6} - {seen.leader})
        state = movable.quorum_state(successor)
        assert state["currentVoters"] == [{"voterId": 4}, {"voterId": 5}, {"voterId": 6}]
        assert state["targetVoters"] is None
        assert state["appliedOffset"] > 0

    asyncio.run(use())


def test_follower_refuses_a_reassignment_and_target_is_described_while_it_is_pending(movable: Movable) -> None:
    async def use() -> None:
        movable.start(1, 2, 3)
        leader, _ = await movable.leader()
        follower = leader % 3 + 1
        refused = await movable.reassign(follower, (1, 2))
        assert refused.error_code is codec.ErrorCode.not_leader_or_follower
        accepted = await movable.reassign(leader, (1, 2, 3, 4))
        assert accepted.error_code is codec.ErrorCode.none
        pending = await movable.described(lambda seen: bool(seen.target))
        assert (voters(pending), pending.target) == ([1, 2, 3], (1, 2, 3, 4))
        movable.start(4)
        await movable.described(lambda seen: voters(seen) == [1, 2, 3, 4] and not seen.target)

    asyncio.run(use())


def test_voters_that_all_changed_their_ports_find_each_other(movable: Movable) -> None:
    async def use() -> None:
        movable.start(1, 2, 3)
        await movable.leader()
        for node in (1, 2, 3):
            movable.kill(node)
        movable.ports |= dict(zip((1, 2, 3), free_ports(3), strict=True))
        movable.start(1, 2, 3)
        await movable.leader()

    asyncio.run(use())


def test_node_with_stale_voters_finds_those_of_now(movable: Movable) -> None:
    async def use() -> None:
        movable.start(*NODES)
        leader, _ = await movable.leader({1, 2, 3})
        movable.kill(next(node for node in (1, 2, 3) if node != leader))
        late = next(node for node in (1, 2, 3) if node not in movable.running)
        await moved(movable, leader, (4, 5, 6))
        for node in {1, 2, 3} - {late}:
            movable.kill(node)
        movable.start(late)
        await movable.described(lambda seen: late in dict(seen.observers))

    asyncio.run(use())
