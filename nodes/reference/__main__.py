"""`python -m nodes.reference FILE.properties`: run one node until SIGTERM.

Exit codes: 0 after a graceful shutdown, 254 for bad input, 1 if the core had to halt, 255 for a failure of the
environment.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

from harness.model import BadInput, SplitbrainError
from nodes.reference.properties import ServerConfig, load
from nodes.reference.server import Server


async def _serve(config: ServerConfig) -> str | None:
    return await Server(config).run()


def main(arguments: list[str]) -> int:
    """Run the node and return the exit code."""
    try:
        if len(arguments) != 1:
            raise BadInput(f"python -m nodes.reference: expected one properties file, got {len(arguments)} arguments")
        config = load(Path(arguments[0]))
        # As Java does: each partition has two files, and systems allow a process 1,024 unless it asks for more.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        failure = asyncio.run(_serve(config))
    except SplitbrainError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if failure is not None:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
