"""Where the proxy meets connections, and how it tells who dials whom: one listener a node.

What may live here: listening, dialling, and telling ends apart. What may not: messages.

A *redirect* is in a node's own network namespace and meets what that node sends; whom it meant to reach is what the
kernel remembers of the redirected connection. A *door* is in front of a node and meets what is sent to it, for hosts
without namespaces: peers dial the door's address, and who dials is whose process holds the other end of the socket.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from harness.model.faults.rpc import CLIENTS
from harness.model.hosts import Link
from nodes.proxy.namespaces import Endpoint, Namespace, listener, original_destination, outgoing

NODE_VARIABLE = "SPLITBRAIN_NODE"
"""The environment variable that says which node a process on a local host serves."""

_BACKLOG = 128
_MAPPED = f"{'0' * 16}{struct.unpack('=I', bytes([0, 0, 255, 255]))[0]:08X}"
"""How /proc/net/tcp6 begins an IPv4 address."""


class Listener(Protocol):
    """Where connections are met, and from where they are led on."""

    async def listen(self) -> Sequence[socket.socket]:
        """Sockets that accept here."""

    def way(self, accepted: socket.socket) -> tuple[Link, Endpoint]:
        """Who dials whom, and where that one is. Raises OSError or KeyError for who came astray."""

    async def outgoing(self, link: Link) -> socket.socket:
        """A socket to lead a connection on with, yet to connect."""


class RedirectListener:
    """What a node sends, met in its own network namespace."""

    def __init__(self, node: int, address: str, namespace: Path, nodes: Mapping[str, int]) -> None:
        """nodes tells every node by its address."""
        self._node, self._address, self._nodes = node, address, nodes
        self._namespace = Namespace(namespace)

    async def listen(self) -> Sequence[socket.socket]:
        """One socket on a free port, to which the kernel redirects."""
        return [await self._namespace.make(listener)]

    def way(self, accepted: socket.socket) -> tuple[Link, Endpoint]:
        """From this node to whom it meant to reach."""
        target = original_destination(accepted)
        return (self._node, self._nodes[target[0]]), target

    async def outgoing(self, _link: Link) -> socket.socket:
        """From the node's own address, marked so that it is not redirected again."""
        return await self._namespace.make(partial(outgoing, self._address, marked=True))


@dataclass(slots=True)
class Dialers:
    """Which node holds the other end of a connection on this machine's loopback.

    claims are endpoints whose node is known beforehand, as those of probes are. servers are the processes known so far.
    """

    claims: dict[Endpoint, int] = field(default_factory=dict)
    servers: dict[int, int] = field(default_factory=dict)

    def node_at(self, peer: Endpoint) -> int:
        """CLIENTS for a process that serves no node. Raises KeyError for an end that is closed already."""
        if peer in self.claims:
            return self.claims[peer]
        inode = _inode(peer)
        holder = next((pid for pid in self._servers() if _holds(pid, inode)), None)
        return CLIENTS if holder is None else self.servers[holder]

    def _servers(self) -> Sequence[int]:
        """The processes that serve nodes; those known first, as they have most connections."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        self.servers = {pid: node for pid, node in self.servers.items() if pid in pids}
        for pid in set(pids) - set(self.servers):
            node = _served(pid)
            if node is not None:
                self.servers[pid] = node
        return list(self.servers)


class AddressListener:
    """What is sent to a node, met at the address that peers know it by."""

    def __init__(
        self, node: int, address: str, ports: Sequence[int], bound: Mapping[int, str], dialers: Dialers
    ) -> None:
        """bound tells every node's own address, where its server listens on the same ports."""
        self._node, self._address, self._ports = node, address, ports
        self._bound, self._dialers = bound, dialers

    async def listen(self) -> Sequence[socket.socket]:
        """One socket a port."""
        doors = [socket.create_server((self._address, port), backlog=_BACKLOG) for port in self._ports]
        for door in doors:
            door.setblocking(False)
        return doors

    def way(self, accepted: socket.socket) -> tuple[Link, Endpoint]:
        """From whoever dials to this node."""
        source = self._dialers.node_at(accepted.getpeername())
        return (source, self._node), (self._bound[self._node], accepted.getsockname()[1])

    async def outgoing(self, link: Link) -> socket.socket:
        """From the dialling node's own address, so that the server sees who asks."""
        made = socket.socket()
        made.setblocking(False)
        made.bind((self._bound.get(link[0], "127.0.0.1"), 0))
        return made


async def outgoing_claimed(address: str) -> socket.socket:
    """A probe's socket on a port of its own, to be claimed for a node before it connects."""
    return await asyncio.to_thread(partial(outgoing, address, marked=False))


def _inode(peer: Endpoint) -> str:
    """The inode of the socket whose local end is peer (proc_net_tcp). Raises KeyError where there is none.

    A JVM's sockets are of IPv6 and carry such an address in IPv6's clothes.
    """
    packed = struct.unpack("=I", socket.inet_aton(peer[0]))[0]
    wanted = f"{packed:08X}:{peer[1]:04X}"
    for table, clothes in (("tcp", ""), ("tcp6", _MAPPED)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1] == clothes + wanted and fields[9] != "0":
                return fields[9]
    raise KeyError(peer)


def _holds(pid: int, inode: str) -> bool:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                if os.readlink(f"{folder}/{name}") == f"socket:[{inode}]":
                    return True
    return False


def _served(pid: int) -> int | None:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = f"{NODE_VARIABLE}=".encode()
    return next((int(each.removeprefix(prefix)) for each in variables if each.startswith(prefix)), None)
