"""Skews the clocks of a node in a sandbox; the node logs the times that it reads.

    python skewed_node.py DIRECTORY      (started by test_clocks_in_a_sandbox.py)

Prints one JSON line: the offsets of the node's clocks in seconds after each step, as logged by the node and as read
from outside. Imports only the standard library and the hosts themselves, so any Python 3.11 can run it, as any user.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.model import PeerFailure
from harness.model.hosts import HostView
from harness.model.systems import NodeCommand
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.processes import ChildProcesses

SECOND_NS = 1_000_000_000
DEADLINE_SECONDS = 10.0
PRINT_CLOCKS = """
import select, time
while True:
    print(time.time(), time.monotonic(), flush=True)
    select.select([], [], [], 0.02)
"""


@dataclass(frozen=True, slots=True)
class ClockPrinters:
    """Each node prints its clocks to its log."""

    def command(self, _host: HostView) -> NodeCommand:
        return NodeCommand([sys.executable, "-c", PRINT_CLOCKS], grace_seconds=1)


async def logged_offsets(log: Path) -> dict[str, float]:
    """The offsets of the node's clocks from ours, by the next complete line of its log."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    size = log.stat().st_size if log.exists() else 0
    while True:
        lines = log.read_bytes()[size:].split(b"\n") if log.exists() else []
        if len(lines) > 3:  # the first and the last line may be incomplete
            realtime, monotonic = map(float, lines[-2].split())
            return {"realtime": realtime - time.time(), "monotonic": monotonic - time.monotonic()}
        assert time.monotonic() < deadline, "waiting for a line of the node"
        await asyncio.sleep(0.005)


async def run(directory: Path) -> dict[str, Any]:
    """The offsets of the clocks after each step."""
    async with NamespaceHosts.up(directory, nodes=1) as hosts:
        servers = ChildProcesses(hosts, ClockPrinters(), lambda *_: None)
        clocks = ProcessClocks(servers.pid)
        results: dict[str, Any] = {}

        async def measure(name: str) -> None:
            logged = await logged_offsets(hosts.views[1].directory / "server.log")
            read = {clock: reading.offset_ns / SECOND_NS for clock, reading in (await clocks.read(1)).items()}
            results[name] = {"logged": logged, "read": read}

        await servers.start(1)
        await measure("initially")
        await clocks.skew(1, ["realtime"], -30 * SECOND_NS)
        await measure("skewed")
        await clocks.skew(1, ["realtime", "monotonic"], 4 * SECOND_NS)
        await measure("both")
        await clocks.reset(1)
        await measure("reset")
        await clocks.skew(1, ["realtime"], SECOND_NS)
        await servers.kill(1)
        try:
            await clocks.skew(1, ["realtime"], SECOND_NS)
        except PeerFailure as error:
            results["refusal"] = str(error)
        await servers.start(1)
        await measure("restarted")
        await servers.kill_all()
        return results


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(Path(sys.argv[1])))), flush=True)
