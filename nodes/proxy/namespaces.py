"""Sockets in a node's network namespace, made from outside it.

What may live here: entering a namespace and making sockets there. What may not: what travels on them.

A socket belongs to the namespace it was made in for good, whoever uses it. One thread a namespace enters it and makes
them; no other thread ever sees it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.model import EnvironmentFailure

Endpoint = tuple[str, int]

MARK = 0x5B
"""SO_MARK of the proxy's own connections, by which the redirect lets them go."""

_CLONE_NEWNET = 0x40000000
_SO_ORIGINAL_DST = 80
_BACKLOG = 128


class Namespace:
    """A network namespace, from its opening to close()."""

    def __init__(self, path: Path) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="namespace")
        self._thread.submit(_enter, path).result()

    async def make(self, maker: Callable[[], socket.socket]) -> socket.socket:
        """What the maker makes, made in the namespace. Raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, maker)

    def close(self) -> None:
        """Let go of the namespace; sockets made there stay as they are."""
        self._thread.shutdown(wait=False)


def listener() -> socket.socket:
    """A listening socket on a free port of the loopback, which is where a redirect leads what a host sends itself."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    listening.setblocking(False)
    return listening


def outgoing(address: str, marked: bool) -> socket.socket:
    """A socket that is yet to connect, from this address of the namespace's; marked ones are not redirected."""
    made = socket.socket()
    made.setblocking(False)
    if marked:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
    made.bind((address, 0))
    return made


def original_destination(accepted: socket.socket) -> Endpoint:
    """Where the peer of a redirected connection meant to connect. Raises OSError for one that was not redirected."""
    packed = accepted.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
    _, port, address = struct.unpack_from("!HH4s", packed)
    return socket.inet_ntoa(address), int(port)


def _enter(path: Path) -> None:
    """Move this thread into a network namespace."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
            raise EnvironmentFailure(f"entering {path}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(descriptor)
