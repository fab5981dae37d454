"""Plays inside a sandbox: a reference node in the third seat of a real Kafka quorum. Prints what was seen as JSON.

    python third_seat.py DIRECTORY VERSION

The reference node stands back at the start so that a real node leads first; after that whoever wins, wins with the
other's pre-vote and vote.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

from nodes.mixed import MixedSystem

from harness.model import Observation
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.processes import ChildProcesses
from nodes.kafka.artifacts import Library
from nodes.kafka.configuration import Layout
from nodes.kafka.system import KafkaSystem
from nodes.observe.watch import QuorumWatch
from nodes.reference.system import ReferenceSystem
from nodes.wire.connection import WireConnection

CLUSTER_ID = "9QAAAAAAAAAAAAAAAAAAAA"
SEAT = 3
PATIENT = {"controller.quorum.election.timeout.ms": "8000"}


async def play(directory: Path, version: str) -> dict[str, object]:
    """What the watchers saw at each turn of the story."""
    release = await Library.default().resolve(version)
    kafka = KafkaSystem(release, Layout.CONTROLLERS, CLUSTER_ID)
    system = MixedSystem({1: kafka, 2: kafka, SEAT: ReferenceSystem(PATIENT, CLUSTER_ID, seed=1)})
    seen: list[Observation] = []
    loop = asyncio.get_running_loop()
    async with NamespaceHosts.up(directory, 3) as hosts:
        await asyncio.gather(*(system.prepare(hosts.host(view.node), hosts.views) for view in hosts.views.values()))
        watch = QuorumWatch(lambda: int(loop.time() * 1e9), 0, seen.append)
        connections = {node: WireConnection(view.address, 9093, "judge") for node, view in hosts.views.items()}
        watch.start({node: system.files(view) for node, view in hosts.views.items()}, connections)
        processes = ChildProcesses(hosts, system, lambda *_: None)
        try:
            for node in hosts.views:
                await processes.start(node)
            return await _story(watch, processes)
        finally:
            await processes.kill_all()
            await watch.stop()
            for connection in connections.values():
                await connection.close()


async def _story(watch: QuorumWatch, processes: ChildProcesses) -> dict[str, object]:
    followed = await watch.until("all follow one leader", 60)
    first = watch.view().leader()
    assert first in (1, 2), f"expected a real node to lead first, n{first} does"
    follower = 3 - first
    await processes.kill(follower)
    carried = await _high_watermark_moves(watch, first, by=4)
    await processes.start(follower)
    rejoined = await watch.until("all follow one leader", 60)
    await processes.kill(first)
    elected = await _becomes(lambda: watch.view().leader() in (follower, SEAT))
    leader = watch.view().leader()
    commits = leader is not None and await _high_watermark_moves(watch, leader, by=4)
    return {"followed": followed, "carried": carried, "rejoined": rejoined, "elected": elected, "commits": commits}


async def _high_watermark_moves(watch: QuorumWatch, leader: int, by: int) -> bool:
    start = watch.view().claims[leader].high_watermark or 0
    return await _becomes(lambda: _high_watermark(watch, leader) >= start + by)


def _high_watermark(watch: QuorumWatch, leader: int) -> int:
    claim = watch.view().claims.get(leader)
    return (claim.high_watermark or 0) if claim else 0


async def _becomes(condition: Callable[[], bool]) -> bool:
    deadline = asyncio.get_running_loop().time() + 30
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


if __name__ == "__main__":
    print(json.dumps(asyncio.run(play(Path(sys.argv[1]), sys.argv[2]))))
