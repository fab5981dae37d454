"""Hosts as plain processes on this machine's loopback, without namespaces, privileges or containers.

Each node has two loopback addresses. Its server listens on one. Peers and clients dial the other, where our proxy
listens (nodes.proxy.proxy_links). Servers are children of the controller; the kernel kills them when the controller
dies. The proxy implements partitions, so they affect only Kafka connections.

    async with LocalHosts.up(directory, nodes=3) as hosts:
        hosts.views[1].address, hosts.views[1].bound      # '127.91.0.1', '127.91.1.1'
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from harness.model import EnvironmentFailure
from harness.model.hosts import HostView
from nodes.hosts.kinds import SameMachineHost
from nodes.hosts.sandbox import die_with_parent

NODES_MAX = 200
SUBNETS = range(64, 127)
"""The second octets of 127.0.0.0/8 that runs use."""
LOCK_PORT = 19_093
NODE_VARIABLE = "SPLITBRAIN_NODE"
"""The environment variable that holds the node number of a server."""


class LocalHosts:
    """The nodes' directories and addresses, inside the block that up() opens."""

    controller_address = "127.0.0.1"

    def __init__(self, views: Mapping[int, HostView]) -> None:
        self.views = views

    @classmethod
    @asynccontextmanager
    async def up(cls, directory: Path, nodes: int) -> AsyncIterator[LocalHosts]:
        """Hosts 1…nodes with directories below directory, on a loopback subnet that no other run uses."""
        assert 0 < nodes <= NODES_MAX
        with _reserved_subnet() as subnet:
            views = {node: _view(directory, subnet, node) for node in range(1, nodes + 1)}
            for view in views.values():
                view.directory.mkdir(parents=True, exist_ok=True)
            yield cls(views)

    def host(self, node: int) -> SameMachineHost:
        """The node's files and short commands."""
        return SameMachineHost(self.views[node])

    def enter(self, node: int, argv: Sequence[str]) -> list[str]:
        """The command that runs argv for the node and dies with the controller; its pid is argv's."""
        return die_with_parent(["env", f"{NODE_VARIABLE}={node}", *argv])


def _view(directory: Path, subnet: int, node: int) -> HostView:
    return HostView(node, f"127.{subnet}.0.{node}", f"n{node}", directory / f"n{node}", f"127.{subnet}.1.{node}")


@contextmanager
def _reserved_subnet() -> Iterator[int]:
    """A free subnet, reserved for the block by a socket on one of its addresses."""
    for offset in range(len(SUBNETS)):
        subnet = SUBNETS[(os.getpid() + offset) % len(SUBNETS)]
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as lock:
            try:
                lock.bind((f"127.{subnet}.0.254", LOCK_PORT))
            except OSError:
                continue
            yield subnet
            return
    raise EnvironmentFailure("reserving loopback addresses: other runs use all of 127.64.0.0 to 127.126.0.0")
