"""The watchers of brokers and ZooKeeper, on real log files, a socket that answers as ZooKeeper, and fake brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harness.model import Observation, PeerFailure
from harness.model.conditions import (
    LEADER_KNOWN,
    compacted,
    in_sync,
    is_not_leader,
    replication_settled,
    session_lost,
    stored_high_watermark,
)
from harness.model.systems import NodeFiles
from nodes.observe.brokers.watch import BrokerWatch

ELECTED = "[2026-11-22 08:36:0{epoch},000] INFO [Controller id={node}] {node} successfully elected as the controller. "
ELECTED += "Epoch incremented to {epoch} and epoch zk version is now {epoch} (kafka.controller.KafkaController)\n"
FAILED = (
    "[2026-11-22 08:36:09,000] ERROR [ReplicaFetcher replicaId=2, leaderId=1, fetcherId=0] Unexpected error occurred "
    "while processing data for partition t-0 at offset 16 (kafka.server.ReplicaFetcherThread)\n"
)
SOON = 5.0


class FakeBroker:
    """Answers Metadata requests with a controller and the in-sync replicas of t-0, which broker 1 leads."""

    def __init__(self) -> None:
        self.controller = -1
        self.in_sync: list[int] | None = None
        self.live = [1, 2]
        self.is_silent = False

    async def call_latest(self, _api_key: int, _values: Any, _timeout_ms: int) -> Any:
        if self.is_silent:
            raise PeerFailure("silent")
        topics = []
        if self.in_sync is not None:
            state = SimpleNamespace(partition_index=0, leader_id=1, leader_epoch=3, isr_nodes=self.in_sync)
            topics = [SimpleNamespace(name="t", is_internal=False, partitions=[state])]
        brokers = [SimpleNamespace(node_id=node) for node in self.live]
        return SimpleNamespace(controller_id=self.controller, topics=topics, brokers=brokers)

    async def close(self) -> None:
        """Nothing is open."""


class Cluster:
    """Brokers 1 and 2, and ZooKeeper, whose ephemeral nodes are by session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.brokers = {1: FakeBroker(), 2: FakeBroker()}
        self.sessions: list[list[str]] = []
        self.seen: list[Observation] = []
        self.watch: BrokerWatch

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read(4) == b"dump"
        nodes = "".join(f"0x{at}:\n" + "".join(f"\t{path}\n" for path in each) for at, each in enumerate(self.sessions))
        writer.write(f"Sessions with Ephemerals ({len(self.sessions)}):\n{nodes}".encode())
        writer.close()

    def log(self, node: int, text: str) -> None:
        with (self.folder / f"n{node}.log").open("a") as file:
            file.write(text)

    def claims(self) -> list[tuple[int, int | None]]:
        return [(one.node, one.epoch) for one in self.seen if one.kind == "claim"]

    def is_controller(self, node: int) -> None:
        others = [[f"/brokers/ids/{other}"] for other in self.brokers if other != node]
        self.sessions = [[f"/brokers/ids/{node}", "/controller"], *others]
        for broker in self.brokers.values():
            broker.controller = node


def watched(folder: Path, story: Callable[[Cluster], Awaitable[None]]) -> Cluster:
    """The cluster after the story, during which it was watched."""

    async def run() -> Cluster:
        cluster = Cluster(folder)
        server = await asyncio.start_server(cluster.answer, "127.0.0.1", 0)
        files = {node: NodeFiles(folder / f"n{node}.log", folder / f"n{node}") for node in cluster.brokers}
        address, port = server.sockets[0].getsockname()
        brokers: Any = cluster.brokers
        cluster.watch = BrokerWatch(lambda: 7, 0, cluster.seen.append, files, brokers, (address, port))
        cluster.watch.start()
        try:
            await story(cluster)
        finally:
            await cluster.watch.stop()
            server.close()
        return cluster

    return asyncio.run(run())


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not holds():
            await asyncio.sleep(0.01)


async def claimed(cluster: Cluster, claim: tuple[int, int]) -> None:
    await eventually(lambda: claim in cluster.claims())


def test_controller_claims_its_epoch_and_never_an_earlier_one(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.log(1, ELECTED.format(node=1, epoch=1))
        cluster.is_controller(1)
        await claimed(cluster, (1, 1))
        cluster.log(2, ELECTED.format(node=2, epoch=2))
        cluster.is_controller(2)
        await claimed(cluster, (2, 2))
        cluster.is_controller(1)  # its third epoch is not in its log yet
        assert await cluster.watch.until(is_not_leader(2), SOON)
        before = len(cluster.claims())
        assert not await cluster.watch.until(session_lost(1), 0.5)
        assert cluster.claims()[before:] == []
        cluster.log(1, ELECTED.format(node=1, epoch=3))
        await claimed(cluster, (1, 3))

    epochs = [epoch for _, epoch in watched(tmp_path, story).claims()]
    assert epochs == sorted(epochs)
    assert set(epochs) == {1, 2, 3}


def test_broker_is_registered_until_its_session_ends(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.is_controller(1)
        assert await cluster.watch.until(LEADER_KNOWN, SOON)
        assert not await cluster.watch.until(session_lost(2), 0.3)
        cluster.sessions.pop()
        assert await cluster.watch.until(session_lost(2), SOON)

    watched(tmp_path, story)


def test_partition_is_recorded_when_it_changes(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.brokers[1].in_sync = [1]
        assert await cluster.watch.until(in_sync(1, "t-0"), SOON)
        cluster.brokers[1].in_sync = [2, 1]
        assert await cluster.watch.until(in_sync(2, "t-0"), SOON)
        cluster.brokers[1].is_silent = True
        await eventually(lambda: any(one.kind == "silence" for one in cluster.seen))

    seen = watched(tmp_path, story).seen
    details = [json.loads(one.detail or "") for one in seen if one.kind == "partition"]
    assert [each["in_sync"] for each in details] == [[1], [1, 2]]
    assert details[0] == {"topic": "t", "partition": 0, "leader": 1, "epoch": 3, "in_sync": [1]}
    assert [(one.node, one.source) for one in seen if one.kind == "silence"] == [(1, "metadata")]


def test_failed_fetcher_is_forgotten_when_its_broker_starts_again(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.log(2, FAILED)
        assert await cluster.watch.until(replication_settled(2, "t-0"), SOON)
        cluster.watch.forget(2)
        assert not await cluster.watch.until(replication_settled(2, "t-0"), 0.5)

    seen = watched(tmp_path, story).seen
    (failed,) = [one for one in seen if one.kind == "fetch-failed"]
    assert (failed.node, json.loads(failed.detail or "")["offset"]) == (2, 16)


def test_stored_high_watermark_is_in_the_checkpoint_of_the_broker(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        checkpoint = tmp_path / "n2" / "replication-offset-checkpoint"
        checkpoint.parent.mkdir()
        checkpoint.write_text("0\n1\nt 0 0\n")
        assert not await cluster.watch.until(stored_high_watermark(2, "t-0"), 0.5)
        checkpoint.write_text("0\n1\nt 0 1\n")
        assert await cluster.watch.until(stored_high_watermark(2, "t-0"), SOON)
        assert await cluster.watch.until(stored_high_watermark(2, "t-0", 1), SOON)
        assert not await cluster.watch.until(stored_high_watermark(2, "t-0", 2), 0.3)
        assert not await cluster.watch.until(stored_high_watermark(1, "t-0"), 0.3)

    watched(tmp_path, story)


def test_partition_is_compacted_if_its_cleaner_has_reached_the_active_segment(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        data = tmp_path / "n2"
        (data / "t-0").mkdir(parents=True)
        for segment in ("00000000000000000000.log", "00000000000000000019.log"):
            (data / "t-0" / segment).touch()
        checkpoint = data / "cleaner-offset-checkpoint"
        checkpoint.write_text("0\n1\nt 0 9\n")
        assert not await cluster.watch.until(compacted(2, "t-0"), 0.5)
        checkpoint.write_text("0\n1\nt 0 19\n")
        assert await cluster.watch.until(compacted(2, "t-0"), SOON)
        assert not await cluster.watch.until(compacted(1, "t-0"), 0.3)

    watched(tmp_path, story)
