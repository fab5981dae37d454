"""Cut links between namespaces: nft drops what a peer sends, in the receiver's own namespace.

One table a node, replaced as a whole, so that a change is atomic on each node and healing is one deletion. Only the
nodes' addresses stand in it: the controller's way to a cut-off node stays open. Whether a link passes is tried with a
datagram from a socket in the sender's namespace to one in the receiver's.
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
"""How long a probe may be missing on a link that is cut; a passing one takes well under a millisecond."""
PRESENCE_SECONDS = 2.0
"""How long probes are sent on a link that is not cut before it counts as dead: a busy machine is no partition."""

CLONE_NEWNET = 0x40000000


class NamespaceLinks:
    """The Links capability of hosts that have network namespaces."""

    def __init__(self, hosts: NamespacedHosts) -> None:
        self._hosts = hosts
        self._cut: frozenset[Link] = frozenset()
        self._probes: dict[int, socket.socket] = {}
        self._round = 0  # of probes: one that arrives after its round has ended counts for nothing

    async def cut(self, links: Iterable[Link]) -> None:
        """Drop what travels on these links, besides what is dropped already."""
        wanted = self._cut | frozenset(links)
        await self._apply(wanted)

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Let these links through again, or all, with no table of ours left; harmless when nothing is cut."""
        await self._apply(frozenset() if links is None else self._cut - frozenset(links))

    async def passes(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Send datagrams on each link and see which arrive; where we did not cut, for a while."""
        await self._open_probes()
        wanted, arrived = set(links), set[Link]()
        if not wanted:
            return {}  # a single node has no links
        self._round += 1
        deadline = asyncio.get_running_loop().time() + PRESENCE_SECONDS
        while True:
            for link in wanted - arrived:
                self._send(link)
            arrived |= await self._collect(wanted - arrived)
            if wanted - self._cut <= arrived or asyncio.get_running_loop().time() > deadline:
                return {link: link in arrived for link in wanted}

    def close(self) -> None:
        """Close the probes' sockets."""
        for probe in self._probes.values():
            probe.close()
        self._probes.clear()

    async def _apply(self, wanted: frozenset[Link]) -> None:
        changed = {target for _, target in wanted ^ self._cut}
        await asyncio.gather(*(self._load(node, _senders(wanted, node)) for node in changed))
        self._cut = wanted

    async def _load(self, node: int, senders: list[int]) -> None:
        rules = drop_rules([self._address(sender) for sender in senders])
        await run(self._hosts.enter(node, ["nft", "-j", "-f", "-"]), json.dumps(rules))

    def _address(self, node: int) -> str:
        return self._hosts.views[node].address

    async def _open_probes(self) -> None:
        for node, view in self._hosts.views.items():
            if node not in self._probes:
                where = self._hosts.network_namespace(node)
                self._probes[node] = await asyncio.to_thread(_socket_in, where, view.address)

    def _send(self, link: Link) -> None:
        """Send a link's datagram; where the sender has no way to the receiver, it does not arrive."""
        source, target = link
        with suppress(OSError):
            self._probes[source].sendto(f"{self._round} {source}".encode(), (self._address(target), PROBE_PORT))

    async def _collect(self, wanted: set[Link]) -> set[Link]:
        """The links whose datagram came, waiting until all did or ABSENCE_SECONDS went by."""
        arrived: set[Link] = set()
        loop = asyncio.get_running_loop()

        async def receive(node: int) -> None:
            expected = {link for link in wanted if link[1] == node}
            while not expected <= arrived:
                round_number, source = map(int, (await loop.sock_recv(self._probes[node], 64)).split())
                if round_number == self._round:
                    arrived.add((source, node))

        waits = [asyncio.create_task(receive(node)) for node in {target for _, target in wanted}]
        _, pending = await asyncio.wait(waits, timeout=ABSENCE_SECONDS)
        for wait in pending:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        return arrived & wanted


def _senders(links: Iterable[Link], node: int) -> list[int]:
    return sorted(source for source, target in links if target == node)


def drop_rules(addresses: list[str]) -> dict[str, object]:
    """nft's JSON: forget our table, and where anything is cut, make it anew with the senders to drop."""
    table = {"family": "ip", "name": TABLE}
    forget: list[dict[str, object]] = [{"add": {"table": table}}, {"delete": {"table": table}}]
    if not addresses:
        return {"nftables": forget}
    chain = {"family": "ip", "table": TABLE, "name": "arriving"}
    hook = {"type": "filter", "hook": "input", "prio": -150, "policy": "accept"}
    match = {"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "@cut"}}
    members: dict[str, object] = {"family": "ip", "table": TABLE, "name": "cut", "type": "ipv4_addr"}
    members["elem"] = addresses
    return {
        "nftables": [
            *forget,
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
    """A datagram socket that lives in another network namespace; call it from a thread of its own.

    A thread enters the namespace, makes the socket and ends: no other thread ever sees that namespace.
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
