"""Creates sockets in a node's network namespace from outside it.

Contains entering a namespace and creating sockets there. Does not handle their data.

A socket belongs permanently to the namespace in which it was created. Each namespace has one thread that enters it and
creates the sockets; no other thread is ever in it.
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
"""SO_MARK of the proxy's own connections, which are not redirected."""

_CLONE_NEWNET = 0x40000000
_SO_ORIGINAL_DST = 80
_BACKLOG = 128


class Namespace:
    """An open network namespace."""

    def __init__(self, path: Path) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="namespace")
        self._thread.submit(_enter, path).result()

    async def make(self, maker: Callable[[], socket.socket]) -> socket.socket:
        """Call maker in the namespace and return its socket. Raises what maker raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, maker)

    def close(self) -> None:
        """Close the namespace; its sockets stay open."""
        self._thread.shutdown(wait=False)


def listening_socket() -> socket.socket:
    """A listening socket on a free port of the loopback, where redirected connections of the host itself arrive."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    listening.setblocking(False)
    return listening


def outgoing(address: str, marked: bool) -> socket.socket:
    """An unconnected socket with this local address; connections of marked sockets are not redirected."""
    unconnected = socket.socket()
    unconnected.setblocking(False)
    if marked:
        unconnected.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
    unconnected.bind((address, 0))
    return unconnected


def original_destination(accepted: socket.socket) -> Endpoint:
    """The original destination of a redirected connection. Raises OSError if it was not redirected."""
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
