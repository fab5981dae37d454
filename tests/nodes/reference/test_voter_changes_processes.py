"""Voters that are added and removed one at a time among real processes, with the requests that Kafka is sent."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.model import Op, PeerFailure
from harness.model.faults.membership import MembershipView, Refused, VoterChange
from nodes.kafka.membership import KafkaMembership, SingleChanges
from nodes.observe.log_batches import read_log
from nodes.reference.directory_ids import directory_text, directory_uuid
from nodes.wire import codec
from tests.nodes.reference.conftest import QUORUM, Processes, free_ports

NODES = (1, 2, 3, 4)
LIMIT_S = 20


class Formatted(Processes):
    """Four processes; 1 to 3 are formatted as the initial voters."""

    def __init__(self, directory: Path, **switches: object) -> None:
        super().__init__(directory, **{"reference.voter_changes": "kip-853"} | switches)
        self.ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        self.first_ports = dict(self.ports)
        self.observers = {4}

    def properties(self, node: int) -> str:
        """The node's properties file."""
        voters = [f"{voter}@127.0.0.1:{self.first_ports[voter]}" for voter in (1, 2, 3)]
        servers = ",".join(f"127.0.0.1:{port}" for port in (*self.first_ports.values(), *self.ports.values()))
        lines = super().properties(node).splitlines()
        kept = [line for line in lines if not line.startswith("controller.quorum.voters")]
        added = [f"controller.quorum.voters={','.join(voters)}", f"controller.quorum.bootstrap.servers={servers}"]
        if node not in self.observers:
            ids = (directory_text(uuid.UUID(int=voter)) for voter in (1, 2, 3))
            initial = (f"{voter}:{directory}" for voter, directory in zip(voters, ids, strict=True))
            added.append(f"reference.initial_controllers={','.join(initial)}")
        return "".join(f"{line}\n" for line in [*kept, *added])

    def membership(self, leader: int) -> KafkaMembership:
        """What changes the voters of real Kafka, at this leader."""
        addresses = dict.fromkeys(NODES, "127.0.0.1")
        return KafkaMembership(
            addresses, self.ports, (), lambda node, _client, _port: self.connection(node), lambda: leader
        )

    async def changed(self, *changes: VoterChange) -> MembershipView:
        """The view of the leader after these changes."""
        leader, _ = await self.leader(set(self.running))
        membership = self.membership(leader)
        try:
            for change in changes:
                await membership.change_voter(change)
            return await membership.view(with_partitions=False)
        finally:
            await membership.close()

    async def described(self, holds: Callable[[Any], bool]) -> Any:
        """The leader's description of the quorum, once it is so."""
        deadline, seen = time.monotonic() + LIMIT_S, None
        while time.monotonic() < deadline:
            for node in list(self.running):
                try:
                    seen = (await self.call(node, codec.DESCRIBE_QUORUM, QUORUM)).topics[0].partitions[0]
                except PeerFailure:
                    continue
                if seen.error_code is codec.ErrorCode.none and holds(seen):
                    return seen
            await asyncio.sleep(0.02)
        raise AssertionError(f"not so in {LIMIT_S} s: {seen}")

    def directory_id(self, node: int) -> uuid.UUID | None:
        """The id in the node's meta.properties."""
        lines = (self.directory / str(node) / "meta.properties").read_text().splitlines()
        return directory_uuid(dict(line.split("=", 1) for line in lines)["directory.id"])


@pytest.fixture(name="quorum")
def formatted_processes(tmp_path: Path) -> Iterator[Formatted]:
    """Processes, not yet started; killed after the test."""
    processes = Formatted(tmp_path)
    yield processes
    for node in list(processes.running):
        processes.kill(node)


def observes(node: int) -> Callable[[Any], bool]:
    """Whether the leader knows this observer, and it has fetched what the leader has."""
    return lambda seen: any(
        each.replica_id == node and each.log_end_offset >= seen.high_watermark for each in seen.observers
    )


def keys(replicas: Any) -> list[tuple[int, uuid.UUID | None]]:
    """The replicas of a description."""
    return [(each.replica_id, each.replica_directory_id) for each in replicas]


def test_voter_is_replaced_and_the_records_are_those_of_kafka(quorum: Formatted) -> None:
    async def use() -> None:
        quorum.start(*NODES)
        await quorum.described(observes(4))
        leader, _ = await quorum.leader()
        out = leader % 3 + 1
        view = await quorum.changed(VoterChange(4, True), VoterChange(out, False))
        assert view.voters == tuple(sorted({1, 2, 3, 4} - {out}))
        seen = await quorum.described(lambda seen: len(seen.current_voters) == 3)
        assert (4, quorum.directory_id(4)) in keys(seen.current_voters)
        for node in {1, 2, 3} - {out, leader}:
            quorum.kill(node)
        await quorum.described(lambda seen: seen.high_watermark > view.log_end)
        state = json.loads((quorum.directory / "4" / "__cluster_metadata-0" / "quorum-state").read_text())
        assert state["data_version"] == 1
        assert {"leaderId", "leaderEpoch", "votedId", "votedDirectoryId"} < state.keys()

    asyncio.run(use())


def test_refusals_have_the_errors_of_kafka(quorum: Formatted) -> None:
    async def use() -> None:
        quorum.start(1, 2, 3)
        leader, _ = await quorum.leader()
        with pytest.raises(Refused, match="duplicate_voter"):
            await quorum.changed(VoterChange(leader % 3 + 1, True))
        follower = leader % 3 + 1
        values = {"cluster_id": None, "voter_id": 3, "voter_directory_id": uuid.UUID(int=3)}
        refused = await quorum.call(follower, codec.REMOVE_RAFT_VOTER, values)
        assert refused.error_code is codec.ErrorCode.not_leader_or_follower
        unknown = await quorum.call(leader, codec.REMOVE_RAFT_VOTER, values | {"voter_directory_id": uuid.UUID(int=9)})
        assert unknown.error_code is codec.ErrorCode.voter_not_found

    asyncio.run(use())


def test_session_of_kafkas_clients_removes_the_leader(quorum: Formatted) -> None:
    async def use() -> None:
        quorum.start(1, 2, 3)
        leader, _ = await quorum.leader()
        changes = SingleChanges(dict.fromkeys((1, 2, 3), "127.0.0.1"), 9093, quorum.connection)
        try:
            await changes.change(leader, Op("invoke", "remove_voter", key=f"n{leader}"))
        finally:
            await changes.close()
        successor, seen = await quorum.leader({1, 2, 3} - {leader})
        assert successor != leader
        assert leader not in dict(keys(seen.current_voters))

    asyncio.run(use())


def test_node_with_a_new_disk_is_an_observer_with_another_directory_until_it_is_added(quorum: Formatted) -> None:
    async def use() -> None:
        quorum.start(1, 2, 3)
        leader, _ = await quorum.leader()
        lost = leader % 3 + 1
        first = quorum.directory_id(lost)
        assert first == uuid.UUID(int=lost)
        quorum.kill(lost)
        shutil.rmtree(quorum.directory / str(lost))
        quorum.observers.add(lost)
        quorum.start(lost)
        seen = await quorum.described(observes(lost))
        second = quorum.directory_id(lost)
        assert second != first
        assert (lost, first) in keys(seen.current_voters)
        assert (lost, second) in keys(seen.observers)
        await quorum.changed(VoterChange(lost, False), VoterChange(lost, True))
        seen = await quorum.described(lambda seen: (lost, second) in keys(seen.current_voters))
        assert (lost, first) not in keys(seen.current_voters)

    asyncio.run(use())


def test_voter_whose_port_has_changed_updates_the_voters_record(quorum: Formatted) -> None:
    async def use() -> None:
        quorum.start(1, 2, 3)
        leader, _ = await quorum.leader()
        moved = leader % 3 + 1
        quorum.kill(moved)
        (quorum.ports[moved],) = free_ports(1)
        quorum.start(moved)
        await quorum.logged(leader, "Voters are [1, 2, 3] in epoch")

    asyncio.run(use())


def test_voters_records_are_read_by_the_observer_of_real_kafka(quorum: Formatted) -> None:
    async def use() -> None:
        quorum.start(*NODES)
        await quorum.described(observes(4))
        await quorum.changed(VoterChange(4, True))

    asyncio.run(use())
    log = quorum.directory / "1" / "__cluster_metadata-0"
    assert [json.loads(batch.voters) for batch in read_log(1, log) if batch.voters] == [[1, 2, 3], [1, 2, 3, 4]]
