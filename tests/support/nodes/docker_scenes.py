"""What the tests of containers share, and the scene that is played by a process to be killed.

python docker_scenes.py DIRECTORY LABEL      (stays until it is killed)
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodes.hosts.docker.hosts import DockerHosts
from nodes.hosts.docker.processes import DockerProcesses
from tests.support.nodes.host_scenes import SERVES, ShellSystem

DEADLINE_SECONDS = 20.0


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until condition() is true."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"waiting until {what}"
        await asyncio.sleep(0.005)


def said(hosts: DockerHosts, node: int) -> str:
    """What a node's server wrote."""
    log = hosts.views[node].directory / "server.log"
    return log.read_text() if log.exists() else ""


async def inhabited(directory: Path, label: str) -> None:
    """Two containers with servers, one of them paused; tells the servers' pids and stays."""
    async with DockerHosts.up(directory, 2, label) as hosts:
        servers = DockerProcesses(hosts, ShellSystem((SERVES, SERVES)), lambda *_: None)
        for node in hosts.views:
            await servers.start(node)
        await servers.pause(2)
        told: dict[str, Any] = {"servers": [servers.pid(node) for node in hosts.views], "own": os.getpid()}
        print(json.dumps(told), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(inhabited(Path(sys.argv[1]), sys.argv[2]))
