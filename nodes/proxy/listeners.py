"""The proxy's listeners, one per node: they accept connections and identify the client and the server node.

Contains listening, dialling and identification of both ends. Does not handle messages.

A RedirectListener is in a node's network namespace and accepts the connections that this node opens. The kernel reports
the original destination of a redirected connection. An AddressListener is in front of a node and accepts the
connections to that node, for hosts without namespaces. Peers dial the listener's address; the process that holds the
other end of the socket identifies the client.
"""

from __future__ import annotations

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
from nodes.hosts.local import NODE_VARIABLE
from nodes.proxy.namespaces import Endpoint, Namespace, listening_socket, original_destination, outgoing

_BACKLOG = 128
_IPV4_MAPPED = f"{'0' * 16}{struct.unpack('=I', bytes([0, 0, 255, 255]))[0]:08X}"
"""The prefix of an IPv4-mapped address in /proc/net/tcp6."""


class Listener(Protocol):
    """Accepts connections of or to one node, and opens the connections to forward them."""

    async def listen(self) -> Sequence[socket.socket]:
        """The listening sockets."""

    def resolve(self, accepted: socket.socket) -> tuple[Link, Endpoint]:
        """The link of an accepted connection and the server's endpoint.

        Raises OSError or KeyError for a connection that has no known client or server.
        """

    async def outgoing(self, link: Link) -> socket.socket:
        """An unconnected socket for the connection to the server."""


class RedirectListener:
    """Accepts the connections that a node opens, in the node's network namespace."""

    def __init__(self, node: int, address: str, namespace: Path, nodes: Mapping[str, int]) -> None:
        """nodes contains every node by its address."""
        self._node, self._address, self._nodes = node, address, nodes
        self._namespace = Namespace(namespace)

    async def listen(self) -> Sequence[socket.socket]:
        """One socket on a free port, to which the kernel redirects."""
        return [await self._namespace.make(listening_socket)]

    def resolve(self, accepted: socket.socket) -> tuple[Link, Endpoint]:
        """The link from this node to the original destination."""
        target = original_destination(accepted)
        return (self._node, self._nodes[target[0]]), target

    async def outgoing(self, _link: Link) -> socket.socket:
        """A socket with the node's own address, marked so that it is not redirected again."""
        return await self._namespace.make(partial(outgoing, self._address, marked=True))


@dataclass(slots=True)
class Dialers:
    """Identifies the node that holds the other end of a connection on this machine's loopback.

    claims are endpoints whose node is known in advance (probes); each is for one connection, since the kernel reuses
    endpoints. servers are the server processes found so far.
    """

    claims: dict[Endpoint, int] = field(default_factory=dict)
    servers: dict[int, int] = field(default_factory=dict)

    def node_at(self, peer: Endpoint) -> int:
        """The node of an endpoint; CLIENTS if its process is not a server. Raises KeyError if it is closed."""
        if peer in self.claims:
            return self.claims.pop(peer)
        inode = _inode(peer)
        holder = next((pid for pid in self._servers() if _holds(pid, inode)), None)
        return CLIENTS if holder is None else self.servers[holder]

    def _servers(self) -> Sequence[int]:
        """The server processes; known ones come first because they have most connections."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        self.servers = {pid: node for pid, node in self.servers.items() if pid in pids}
        for pid in set(pids) - set(self.servers):
            node = _node_of(pid)
            if node is not None:
                self.servers[pid] = node
        return list(self.servers)


class AddressListener:
    """Accepts the connections to a node, at the address that peers dial."""

    def __init__(
        self, node: int, address: str, ports: Sequence[int], bound: Mapping[int, str], dialers: Dialers
    ) -> None:
        """bound contains every node's own address, where its server listens on the same ports."""
        self._node, self._address, self._ports = node, address, ports
        self._bound, self._dialers = bound, dialers

    async def listen(self) -> Sequence[socket.socket]:
        """One socket per port."""
        sockets = [socket.create_server((self._address, port), backlog=_BACKLOG) for port in self._ports]
        for listening in sockets:
            listening.setblocking(False)
        return sockets

    def resolve(self, accepted: socket.socket) -> tuple[Link, Endpoint]:
        """The link from the dialling node to this node."""
        source = self._dialers.node_at(accepted.getpeername())
        return (source, self._node), (self._bound[self._node], accepted.getsockname()[1])

    async def outgoing(self, link: Link) -> socket.socket:
        """A socket with the dialling node's own address, so that the server sees the correct client."""
        return outgoing(self._bound.get(link[0], "127.0.0.1"), marked=False)


def _inode(peer: Endpoint) -> str:
    """The inode of the socket whose local end is peer (proc_net_tcp). Raises KeyError if there is none.

    A JVM uses IPv6 sockets, which have IPv4-mapped addresses.
    """
    packed = struct.unpack("=I", socket.inet_aton(peer[0]))[0]
    local = f"{packed:08X}:{peer[1]:04X}"
    for table, prefix in (("tcp", ""), ("tcp6", _IPV4_MAPPED)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1] == prefix + local and fields[9] != "0":
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


def _node_of(pid: int) -> int | None:
    """The node that a process serves; None if it is not a server or has ended."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = f"{NODE_VARIABLE}=".encode()
    return next((int(variable.removeprefix(prefix)) for variable in variables if variable.startswith(prefix)), None)
