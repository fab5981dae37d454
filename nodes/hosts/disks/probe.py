"""Looks at a disk as a process on the node does: a small program is run there, and what it met is told.

    python -m nodes.hosts.disks.probe DIRECTORY '{"do": "write", "bytes": 4096}'

What may live here: the looks, each a function from a directory to a JSON value, and running them on a node. What may
not: deeds. A look that does not end in time has met a disk that hangs; it is killed.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.model import EnvironmentFailure
from nodes.hosts.kinds import EnterableHosts

SCRATCH = ".splitbrain-probe"
LOOK_SECONDS = 20.0


async def look(
    hosts: EnterableHosts, node: int, directory: Path, within_seconds: float = LOOK_SECONDS, **ask: Any
) -> Any:
    """What a process on the node meets; None where it does not end within so many seconds."""
    argv = [sys.executable, "-P", "-m", "nodes.hosts.disks.probe", str(directory), json.dumps(ask)]
    process = await asyncio.create_subprocess_exec(
        *hosts.enter(node, argv),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), within_seconds)
    except TimeoutError:
        process.kill()
        await process.wait()
        return None
    if process.returncode:
        words = err.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise EnvironmentFailure(f"looking at n{node}'s disk: {words[-1]}")
    return json.loads(out)


def write(directory: Path, ask: Mapping[str, Any]) -> dict[str, Any]:
    """Write so many bytes to a file of our own, sync it, read it and remove it, so many times.

    Tells how each try ended ("ok" or the error's name), the slowest in ms, and whether what was read was what had been
    written.
    """
    ends, took_ms, same = [], [], True
    content = os.urandom(4096) * (-(-ask["bytes"] // 4096))
    for _ in range(ask.get("times", 1)):
        began = time.monotonic()
        try:
            same = _write_and_read(directory / SCRATCH, content) and same
            ends.append("ok")
        except OSError as error:
            ends.append(errno.errorcode.get(error.errno or 0, str(error)))
        took_ms.append((time.monotonic() - began) * 1000)
    return {"ends": ends, "most_ms": max(took_ms), "least_ms": min(took_ms), "same": same}


def _write_and_read(path: Path, content: bytes) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
            return os.pread(descriptor, len(content), 0) == content
        finally:
            os.close(descriptor)
    finally:
        with suppress(OSError):  # what could not be made cannot be removed either
            path.unlink()


def leave(directory: Path, ask: Mapping[str, Any]) -> dict[str, Any]:
    """Leave two files, one synced, one not: what a power failure keeps, and what it need not."""
    synced, unsynced = directory / ask["synced"], directory / ask["unsynced"]
    descriptor = os.open(synced, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, b"synced")
    os.fsync(descriptor)
    os.close(descriptor)
    above = os.open(directory, os.O_RDONLY)
    os.fsync(above)
    os.close(above)
    unsynced.write_bytes(b"unsynced")
    return {}


def contents(directory: Path, ask: Mapping[str, Any]) -> dict[str, Any]:
    """The checksum of each of these files; None where it is not there."""
    paths = {name: directory / name for name in ask["files"]}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None for name, path in paths.items()
    }


LOOKS: Mapping[str, Callable[[Path, Mapping[str, Any]], dict[str, Any]]] = {
    "write": write,
    "leave": leave,
    "contents": contents,
}

if __name__ == "__main__":
    asked = json.loads(sys.argv[2])
    print(json.dumps(LOOKS[asked["do"]](Path(sys.argv[1]), asked)))
