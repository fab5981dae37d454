"""Probes a disk as a process on the node: a small program runs there and prints what it observed as JSON.

    python -m nodes.hosts.disks.probe DIRECTORY '{"do": "write", "bytes": 4096}'

Contains the probes, each a function from a directory to a JSON value, and the code that runs them on a node. Does not
inject faults. A probe that does not complete in time means that the disk hangs; the probe is killed.
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
from nodes.hosts.commands import last_line
from nodes.hosts.kinds import EnterableHosts

SCRATCH = ".splitbrain-probe"
PROBE_SECONDS = 20.0


async def run_probe(
    hosts: EnterableHosts, node: int, directory: Path, within_seconds: float = PROBE_SECONDS, **request: Any
) -> Any:
    """Run a probe on the node; returns its result, or None if it does not complete within within_seconds.

    Raises EnvironmentFailure if the probe fails.
    """
    argv = [sys.executable, "-P", "-m", "nodes.hosts.disks.probe", str(directory), json.dumps(request)]
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
        raise EnvironmentFailure(f"probing n{node}'s disk: {last_line(err)}")
    return json.loads(out)


def write(directory: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """Write `bytes` bytes to a scratch file, sync, read and remove it; repeat `times` times.

    Returns the outcome of each attempt ("ok" or the errno name), the longest and shortest duration in ms, and whether
    each attempt read back what it wrote.
    """
    ends, took_ms, same = [], [], True
    content = os.urandom(4096) * (-(-request["bytes"] // 4096))
    for _ in range(request.get("times", 1)):
        started = time.monotonic()
        try:
            same = _write_and_read(directory / SCRATCH, content) and same
            ends.append("ok")
        except OSError as error:
            ends.append(errno.errorcode.get(error.errno or 0, str(error)))
        took_ms.append((time.monotonic() - started) * 1000)
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
        with suppress(OSError):  # the file may not have been created
            path.unlink()


def leave(directory: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """Leave two files, one synced and one not: a power failure keeps the first and may lose the second."""
    synced, unsynced = directory / request["synced"], directory / request["unsynced"]
    descriptor = os.open(synced, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, b"synced")
    os.fsync(descriptor)
    os.close(descriptor)
    parent = os.open(directory, os.O_RDONLY)
    os.fsync(parent)
    os.close(parent)
    unsynced.write_bytes(b"unsynced")
    return {}


def contents(directory: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """The checksum of each file in `files`; None for a file that does not exist."""
    paths = {name: directory / name for name in request["files"]}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None for name, path in paths.items()
    }


PROBES: Mapping[str, Callable[[Path, Mapping[str, Any]], dict[str, Any]]] = {
    "write": write,
    "leave": leave,
    "contents": contents,
}

if __name__ == "__main__":
    requested = json.loads(sys.argv[2])
    print(json.dumps(PROBES[requested["do"]](Path(sys.argv[1]), requested)))
