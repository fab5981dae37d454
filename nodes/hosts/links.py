"""Cuts links between namespaces: nft drops a peer's packets in the receiver's own namespace.

Each node has one table, which is always replaced as a whole: a change is atomic on each node, and healing is one
deletion. The table contains only nodes' addresses, so the controller can still reach a partitioned node. To test a
link, a socket in the sender's namespace sends a datagram to a socket in the receiver's.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from harness.model import EnvironmentFailure
from harness.model.hosts import Link
from nodes.hosts.commands import run
from nodes.hosts.kinds import NamespacedHosts

TABLE = "splitbrain"
PROBE_PORT = 9
ABSENCE_SECONDS = 0.1
"""How long to wait for a probe on a cut link; on an open link it arrives in well under a millisecond."""
PRESENCE_SECONDS = 2.0
"""How long to send probes on an open link before it counts as failed; a busy machine must not look partitioned."""

CLONE_NEWNET = 0x40000000


class NamespaceLinks:
    """The Links capability of hosts that have network namespaces."""

    def __init__(self, hosts: NamespacedHosts) -> None:
        self._hosts = hosts
        self._cut: frozenset[Link] = frozenset()
        self._probes: dict[int, socket.socket] = {}
        self._round = 0  # number of the current round of probes; probes of earlier rounds are ignored

    async def cut(self, links: Iterable[Link]) -> None:
        """Drop all packets on these links, in addition to links that are already cut."""
        await self._apply(self._cut | frozenset(links))

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Restore these links, or all; removes our tables where no cut remains. Does nothing if nothing is cut."""
        await self._apply(frozenset() if links is None else self._cut - frozenset(links))

    async def passes(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Whether a datagram arrives on each link; open links are retried for PRESENCE_SECONDS."""
        await self._open_probes()
        expected, arrived = set(links), set[Link]()
        if not expected:
            return {}  # a single node has no links
        self._round += 1
        deadline = asyncio.get_running_loop().time() + PRESENCE_SECONDS
        while True:
            for link in expected - arrived:
                self._send(link)
            arrived |= await self._collect(expected - arrived)
            if expected - self._cut <= arrived or asyncio.get_running_loop().time() > deadline:
                return {link: link in arrived for link in expected}

    def close(self) -> None:
        """Close the probe sockets."""
        for probe in self._probes.values():
            probe.close()
        self._probes.clear()

    async def _apply(self, cut: frozenset[Link]) -> None:
        changed = {target for _, target in cut ^ self._cut}
        await asyncio.gather(*(self._load(node, _senders(cut, node)) for node in changed))
        self._cut = cut

    async def _load(self, node: int, senders: list[int]) -> None:
        rules = drop_rules([self._address(sender) for sender in senders])
        await run(self._hosts.enter(node, ["nft", "-j", "-f", "-"]), json.dumps(rules))

    def _address(self, node: int) -> str:
        return self._hosts.views[node].address

    async def _open_probes(self) -> None:
        for node, view in self._hosts.views.items():
            if node not in self._probes:
                namespace = self._hosts.network_namespace(node)
                self._probes[node] = await asyncio.to_thread(_socket_in, namespace, view.address)

    def _send(self, link: Link) -> None:
        """Send a link's datagram; without a route to the receiver it does not arrive."""
        source, target = link
        with suppress(OSError):
            self._probes[source].sendto(f"{self._round} {source}".encode(), (self._address(target), PROBE_PORT))

    async def _collect(self, links: set[Link]) -> set[Link]:
        """The links whose datagram arrived; waits at most ABSENCE_SECONDS for all of them."""
        arrived: set[Link] = set()
        loop = asyncio.get_running_loop()

        async def receive(node: int) -> None:
            expected = {link for link in links if link[1] == node}
            while not expected <= arrived:
                round_number, source = map(int, (await loop.sock_recv(self._probes[node], 64)).split())
                if round_number == self._round:
                    arrived.add((source, node))

        receivers = [asyncio.create_task(receive(node)) for node in {target for _, target in links}]
        _, pending = await asyncio.wait(receivers, timeout=ABSENCE_SECONDS)
        for receiver in pending:
            receiver.cancel()
        await asyncio.gather(*receivers, return_exceptions=True)
        return arrived & links


def _senders(links: Iterable[Link], node: int) -> list[int]:
    return sorted(source for source, target in links if target == node)


def drop_rules(addresses: list[str]) -> dict[str, object]:
    """nft commands as JSON: delete our table and, if there are addresses, recreate it to drop their packets."""
    table = {"family": "ip", "name": TABLE}
    delete: list[dict[str, object]] = [{"add": {"table": table}}, {"delete": {"table": table}}]
    if not addresses:
        return {"nftables": delete}
    chain = {"family": "ip", "table": TABLE, "name": "arriving"}
    hook = {"type": "filter", "hook": "input", "prio": -150, "policy": "accept"}
    match = {"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "@cut"}}
    members: dict[str, object] = {"family": "ip", "table": TABLE, "name": "cut", "type": "ipv4_addr"}
    members["elem"] = addresses
    return {
        "nftables": [
            *delete,
            {"add": {"table": table}},
            {"add": {"set": members}},
            {"add": {"chain": {**chain, **hook}}},
            {
                "add": {
                    "rule": {
                        "family": "ip",
                        "table": TABLE,
                        "chain": "arriving",
                        "expr": [match, {"counter": None}, {"drop": None}],
                    }
                }
            },
        ]
    }


def _socket_in(namespace: Path, address: str) -> socket.socket:
    """A datagram socket in another network namespace. Blocks.

    A dedicated thread enters the namespace, creates the socket and ends, so no other thread is ever in that namespace.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(_enter_and_bind, namespace, address).result()


def _enter_and_bind(namespace: Path, address: str) -> socket.socket:
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(descriptor, CLONE_NEWNET):
            raise EnvironmentFailure(f"entering {namespace}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(descriptor)
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    probe.setblocking(False)
    probe.bind((address, PROBE_PORT))
    return probe
