"""A node in a sandbox whose clocks are moved by the controller there: it writes what it reads into its log.

    python moved_node.py DIRECTORY      (started by test_clocks_in_a_sandbox.py)

Tells by one JSON line how far the node's clocks were ahead, in seconds, as the node said itself and as read from
outside.
Only the standard library and the hosts themselves are imported, so that any Python 3.11 runs it, as any user.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.model import PeerFailure
from harness.model.hosts import HostView
from harness.model.quorum_states import TableName
from harness.model.systems import NodeCommand, NodeFiles
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.processes import ChildProcesses

SECOND_NS = 1_000_000_000
DEADLINE_SECONDS = 10.0
TELLS_TIME = """
import select, time
while True:
    print(time.time(), time.monotonic(), flush=True)
    select.select([], [], [], 0.02)
"""


@dataclass(frozen=True, slots=True)
class Timers:
    """A system whose node writes its clocks into its log."""

    label: str = "timers"
    table: TableName = "kip-996"

    async def prepare(self, host: HostView, hosts: Mapping[int, HostView]) -> None:
        """Nothing to prepare."""

    def command(self, _host: HostView) -> NodeCommand:
        return NodeCommand([sys.executable, "-c", TELLS_TIME], grace_seconds=1)

    def files(self, host: HostView) -> NodeFiles:
        return NodeFiles(host.directory / "server.log", host.directory, host.directory / "quorum-state")


async def own_words(log: Path) -> dict[str, float]:
    """What the node's next whole line says of its clocks, less ours at that moment."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    size = log.stat().st_size if log.exists() else 0
    while True:
        lines = log.read_bytes()[size:].split(b"\n") if log.exists() else []
        if len(lines) > 3:  # the first may be cut, the last is not whole
            realtime, monotonic = map(float, lines[-2].split())
            return {"realtime": realtime - time.time(), "monotonic": monotonic - time.monotonic()}
        assert time.monotonic() < deadline, "waiting for a line of the node"
        await asyncio.sleep(0.005)


async def play(directory: Path) -> dict[str, Any]:
    """Each deed in turn, and what the clocks showed after it."""
    async with NamespaceHosts.up(directory, nodes=1) as hosts:
        servers = ChildProcesses(hosts, Timers(), lambda *_: None)
        clocks = ProcessClocks(servers.pid)
        told: dict[str, Any] = {}

        async def look(name: str) -> None:
            said = await own_words(hosts.views[1].directory / "server.log")
            read = {clock: reading.offset_ns / SECOND_NS for clock, reading in (await clocks.read(1)).items()}
            told[name] = {"said": said, "read": read}

        await servers.start(1)
        await look("at first")
        await clocks.skew(1, ["realtime"], -30 * SECOND_NS)
        await look("skewed")
        await clocks.skew(1, ["realtime", "monotonic"], 4 * SECOND_NS)
        await look("both")
        await clocks.reset(1)
        await look("reset")
        await clocks.skew(1, ["realtime"], SECOND_NS)
        await servers.kill(1)
        try:
            await clocks.skew(1, ["realtime"], SECOND_NS)
        except PeerFailure as error:
            told["refusal"] = str(error)
        await servers.start(1)
        await look("begun anew")
        await servers.kill_all()
        return told


if __name__ == "__main__":
    print(json.dumps(asyncio.run(play(Path(sys.argv[1])))), flush=True)
