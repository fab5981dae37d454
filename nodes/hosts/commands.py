"""Runs a short command to its end and turns its failure into one line.

Only for commands of a moment (ip, nft, a storage tool); servers are started by nodes.hosts.processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from harness.model import EnvironmentFailure


async def run(argv: Sequence[str], stdin: str = "", timeout_seconds: float = 60.0) -> str:
    """The command's standard output.

    Raises EnvironmentFailure naming the command and the last line it wrote to standard error, where it is missing,
    exits non-zero or outlives timeout_seconds.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError as error:
        raise EnvironmentFailure(
            f"running {argv[0]}: no such program here; `splitbrain doctor` names its package"
        ) from error
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), timeout_seconds)
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise EnvironmentFailure(f"running {' '.join(argv)}: not done after {timeout_seconds:g} s") from error
    if process.returncode:
        raise EnvironmentFailure(f"running {' '.join(argv)}: exit {process.returncode}: {_last_line(err or out)}")
    return out.decode()


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it wrote nothing"
