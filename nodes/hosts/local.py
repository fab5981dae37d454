"""Hosts as plain processes on this machine's loopback: no namespaces, no privilege, no container.

Each node has two loopback addresses: one where its server listens, and one that peers and clients know it by, where the
proxy of ours stands (nodes.proxy.listeners_local). Servers are the controller's children, tied to it: when it dies,
however, the
kernel ends them. What these hosts cannot do, they say (UNAVAILABLE); a partition is the proxy's, so it speaks of
Kafka's
connections alone.

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
from nodes.hosts.sandbox import tie

NODES_MAX = 200
SUBNETS = range(64, 127)
"""Second octets of 127.0.0.0/8 that runs choose from."""
LOCK_PORT = 19_093
UNAVAILABLE: Mapping[str, str] = {
    "packets": "plain processes share one loopback, whose packets nobody may treat badly; use namespaces or containers",
    "disks": "plain processes share the controller's file system; use namespaces or containers",
}


class LocalHosts:
    """The nodes' directories and addresses, inside the block that up() opens."""

    controller_address = "127.0.0.1"

    def __init__(self, views: Mapping[int, HostView]) -> None:
        self.views = views

    @classmethod
    @asynccontextmanager
    async def up(cls, directory: Path, nodes: int) -> AsyncIterator[LocalHosts]:
        """Hosts 1…nodes with directories below directory, on a subnet of the loopback that no other run has."""
        assert 0 < nodes <= NODES_MAX
        with _a_subnet_of_our_own() as subnet:
            views = {node: _view(directory, subnet, node) for node in range(1, nodes + 1)}
            for view in views.values():
                view.directory.mkdir(parents=True, exist_ok=True)
            yield cls(views)

    def host(self, node: int) -> SameMachineHost:
        """The node's files and short commands."""
        return SameMachineHost(self.views[node])

    def enter(self, node: int, argv: Sequence[str]) -> list[str]:
        """The command that runs argv as the node's, tied to the controller's life; its pid is argv's."""
        return tie(["env", f"SPLITBRAIN_NODE={node}", *argv])


def _view(directory: Path, subnet: int, node: int) -> HostView:
    return HostView(node, f"127.{subnet}.0.{node}", f"n{node}", directory / f"n{node}", f"127.{subnet}.1.{node}")


@contextmanager
def _a_subnet_of_our_own() -> Iterator[int]:
    """A free subnet, kept by a socket on one of its addresses for as long as the block lasts."""
    for offset in range(len(SUBNETS)):
        subnet = SUBNETS[(os.getpid() + offset) % len(SUBNETS)]
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as lock:
            try:
                lock.bind((f"127.{subnet}.0.254", LOCK_PORT))
            except OSError:
                continue
            yield subnet
            return
    raise EnvironmentFailure("finding loopback addresses: all of 127.64.0.0 to 127.126.0.0 are in use by other runs")
