"""Keeps local copies of a node's files up to date while its server writes them on another machine.

`.log` files are followed as they grow. Other files are small and replaced atomically, so a reader never sees a partial
file.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path

from harness.model.hosts import HostView
from nodes.hosts.ssh.connection import SshConnection
from nodes.hosts.ssh.scripts import MIRROR
from nodes.hosts.ssh.stream import LineStream


class SshMirror:
    """The local copies of one node's files."""

    def __init__(self, view: HostView, stream: LineStream) -> None:
        self._view = view
        self._stream = stream

    @staticmethod
    async def start(connection: SshConnection, view: HostView, files: Sequence[Path]) -> SshMirror:
        """Start copying these files, relative to the node's directory, to the view's mirror."""
        for file in files:
            assert not file.is_absolute(), f"{file} is not relative to the node's directory"
            (view.mirror / file).parent.mkdir(parents=True, exist_ok=True)
            (view.mirror / file).unlink(missing_ok=True)
        argv = ["sh", "-c", MIRROR, "mirror", str(view.directory), *map(str, files)]
        channel = await asyncio.to_thread(connection.stream, argv)
        allowed = {str(file): view.mirror / file for file in files}
        return SshMirror(view, LineStream(channel, lambda line: _store(allowed, line)))

    async def close(self) -> None:
        """Stop copying; the copies remain."""
        await self._stream.close()


def _store(files: dict[str, Path], line: str) -> None:
    name, _, content = line.partition(" ")
    if name not in files:
        return
    path, data = files[name], base64.b64decode(content)
    if path.suffix == ".log":
        with path.open("ab") as log:
            log.write(data)
        return
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(data)
    new.replace(path)
