"""Runs a short command and reports its failure in one line.

Only for short commands (ip, nft, a storage tool); nodes.hosts.processes starts servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from harness.model import EnvironmentFailure


async def run(argv: Sequence[str], stdin: str = "", timeout_seconds: float = 60.0) -> str:
    """The command's standard output.

    Raises EnvironmentFailure if it is not installed, exits non-zero or runs longer than timeout_seconds. The message
    names the command and the last line of its standard error.
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
            f"running {argv[0]}: it is not installed; `splitbrain doctor` names its package"
        ) from error
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), timeout_seconds)
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise EnvironmentFailure(f"running {' '.join(argv)}: timed out after {timeout_seconds:g} s") from error
    if process.returncode:
        raise EnvironmentFailure(f"running {' '.join(argv)}: exit {process.returncode}: {last_line(err or out)}")
    return out.decode()


def last_line(output: bytes) -> str:
    """The last line of a command's output, which names its error."""
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"
