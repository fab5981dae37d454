"""A controller of container hosts for the tests to kill.

python docker_cases.py DIRECTORY LABEL      (runs until it is killed)
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from nodes.hosts.docker.hosts import DockerHosts
from nodes.hosts.docker.processes import DockerProcesses
from tests.support.nodes.host_cases import READY, ShellServers


async def run_servers(directory: Path, label: str) -> None:
    """Two containers with servers, one of them paused; reports the servers' pids and runs until it is killed."""
    async with DockerHosts.up(directory, 2, label) as hosts:
        servers = DockerProcesses(hosts, ShellServers((READY, READY)), lambda *_: None)
        for node in hosts.views:
            await servers.start(node)
        await servers.pause(2)
        print(json.dumps({"servers": [servers.pid(node) for node in hosts.views]}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run_servers(Path(sys.argv[1]), sys.argv[2]))
