"""Runs a command with access to SSH machines: a sandbox with a real sshd in each of its namespaces.

    python with_ssh_machines.py COUNT DIRECTORY COMMAND…

INVENTORY in the command is replaced by the path of the machines' inventory. SPLITBRAIN_TEST_SSHD is the path of sshd.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from nodes.hosts.sandbox import Privilege, enclose
from tests.support.nodes.ssh_machines import inventory, machines

INSIDE = "SPLITBRAIN_TEST_WITH_SSH_MACHINES"


async def run(count: int, directory: Path, argv: list[str]) -> int:
    async with machines(directory, count) as hosts:
        path = inventory(hosts, directory)
        command = await asyncio.create_subprocess_exec(*(argument.replace("INVENTORY", str(path)) for argument in argv))
        return await command.wait()


def main() -> int:
    count, directory, *argv = sys.argv[1:]
    if INSIDE not in os.environ:
        command = enclose([sys.executable, *sys.argv], Privilege.detect())
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode
    Path(directory).mkdir(parents=True, exist_ok=True)
    return asyncio.run(run(int(count), Path(directory), argv))


if __name__ == "__main__":
    sys.exit(main())
