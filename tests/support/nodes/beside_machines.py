"""Runs a command beside machines: a sandbox with a real sshd in each of its namespaces, and an inventory of them.

    python beside_machines.py COUNT DIRECTORY COMMAND…

In the command's words, INVENTORY stands for the inventory's path. SPLITBRAIN_TEST_SSHD says where sshd is.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from nodes.hosts.sandbox import Privilege, enclose
from tests.support.nodes.ssh_machines import inventory, machines

INSIDE = "SPLITBRAIN_TEST_BESIDE_MACHINES"


async def play(count: int, directory: Path, argv: list[str]) -> int:
    async with machines(directory, count) as hosts:
        path = inventory(hosts, directory)
        command = await asyncio.create_subprocess_exec(*(word.replace("INVENTORY", str(path)) for word in argv))
        return await command.wait()


def main() -> int:
    count, directory, *argv = sys.argv[1:]
    if INSIDE not in os.environ:
        command = enclose([sys.executable, *sys.argv], Privilege.detect())
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode
    Path(directory).mkdir(parents=True, exist_ok=True)
    return asyncio.run(play(int(count), Path(directory), argv))


if __name__ == "__main__":
    sys.exit(main())
