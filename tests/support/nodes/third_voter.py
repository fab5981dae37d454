"""Runs inside a sandbox: a reference node as the third voter of a real Kafka quorum. Prints its observations as JSON.

    python third_voter.py DIRECTORY VERSION

The reference node has a long election timeout, so that a real node leads first. A later leader needs the pre-vote and
the vote of the other live node.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.model import Observation
from harness.model.conditions import ALL_FOLLOW_LEADER
from harness.planning.plan import Plan
from harness.systems.cluster import Cluster
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.processes import ChildProcesses
from nodes.kafka.artifacts import Library
from nodes.observe.watch import QuorumWatch
from nodes.wire.connection import WireConnection

REFERENCE_NODE = 3
SWITCHES = {"controller.quorum.election.timeout.ms": "8000"}


async def run(directory: Path, version: str) -> dict[str, object]:
    """Run the quorum; returns whether each expected event was observed."""
    release = await Library.default().resolve(version)
    mixed: dict[str, Any] = {"system": f"kafka:{release.version}", "node_systems": {REFERENCE_NODE: "reference"}}
    system = Cluster(Plan(name="mixed", seed=1, story=[], node_switches={REFERENCE_NODE: SWITCHES}, **mixed))
    observations: list[Observation] = []
    loop = asyncio.get_running_loop()
    async with NamespaceHosts.up(directory, 3) as hosts:
        await asyncio.gather(*(system.prepare(hosts.host(view.node), hosts.views) for view in hosts.views.values()))
        connections = {node: WireConnection(view.address, 9093, "observer") for node, view in hosts.views.items()}
        files = {node: system.files(view) for node, view in hosts.views.items()}
        watch = QuorumWatch(lambda: int(loop.time() * 1e9), 0, observations.append, files, connections)
        watch.start()
        processes = ChildProcesses(hosts, system, lambda *_: None)
        try:
            for node in hosts.views:
                await processes.start(node)
            return await _kill_follower_then_leader(watch, processes)
        finally:
            await processes.kill_all()
            await watch.stop()


async def _kill_follower_then_leader(watch: QuorumWatch, processes: ChildProcesses) -> dict[str, object]:
    followed = await watch.until(ALL_FOLLOW_LEADER, 60)
    first = watch.view().leader()
    assert first in (1, 2), f"expected a real node to lead first, n{first} does"
    follower = 3 - first
    await processes.kill(follower)
    replicated = await _high_watermark_advances(watch, first, by=4)
    await processes.start(follower)
    rejoined = await watch.until(ALL_FOLLOW_LEADER, 60)
    await processes.kill(first)
    elected = await _holds_within_30_s(lambda: watch.view().leader() in (follower, REFERENCE_NODE))
    leader = watch.view().leader()
    committed = leader is not None and await _high_watermark_advances(watch, leader, by=4)
    return {
        "followed": followed,
        "replicated": replicated,
        "rejoined": rejoined,
        "elected": elected,
        "committed": committed,
    }


async def _high_watermark_advances(watch: QuorumWatch, leader: int, by: int) -> bool:
    start = watch.view().claims[leader].high_watermark or 0
    return await _holds_within_30_s(lambda: _high_watermark(watch, leader) >= start + by)


def _high_watermark(watch: QuorumWatch, leader: int) -> int:
    claim = watch.view().claims.get(leader)
    return (claim.high_watermark or 0) if claim else 0


async def _holds_within_30_s(condition: Callable[[], bool]) -> bool:
    deadline = asyncio.get_running_loop().time() + 30
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(Path(sys.argv[1]), sys.argv[2]))))
