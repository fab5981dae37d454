"""Cuts links between SSH hosts: nft on the receiver drops a peer's packets, as for namespaces of one machine.

The table contains only nodes' addresses, so the controller's connection stays open for healing. To test a link, a
helper process on the sender sends a datagram to one on the receiver.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping

from harness.model import EnvironmentFailure
from harness.model.hosts import Link
from nodes.hosts.links import PRESENCE_SECONDS, drop_rules
from nodes.hosts.ssh.hosts import SshHosts
from nodes.hosts.ssh.scripts import PROBE
from nodes.hosts.ssh.stream import LineStream

PROBE_PORT = 40_909
"""Above the ports that only root may bind."""
ABSENCE_SECONDS = 0.3
"""How long to wait for a probe on a cut link; sending it and reporting its arrival both go through SSH."""
READY_SECONDS = 10.0


class SshLinks:
    """The Links capability of SSH hosts; needs root or sudo on the machines."""

    def __init__(self, hosts: SshHosts) -> None:
        self._hosts = hosts
        self._cut: frozenset[Link] = frozenset()
        self._probes: dict[int, LineStream] = {}
        self._ready: set[int] = set()
        self._round = 0  # number of the current round of probes; probes of earlier rounds are ignored
        self._arrived: set[Link] = set()

    async def cut(self, links: Iterable[Link]) -> None:
        """Drop all packets on these links, in addition to links that are already cut."""
        await self._apply(self._cut | frozenset(links))

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Restore these links, or all; removes our tables where no cut remains. Does nothing if nothing is cut."""
        await self._apply(frozenset() if links is None else self._cut - frozenset(links))

    async def passes(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Whether a datagram arrives on each link; open links are retried for PRESENCE_SECONDS."""
        await self._open_probes()
        expected = set(links)
        self._round += 1
        self._arrived = set()
        deadline = asyncio.get_running_loop().time() + PRESENCE_SECONDS
        while True:
            await asyncio.gather(*(self._send(node, expected - self._arrived) for node in self._probes))
            await self._collect(expected)
            if expected - self._cut <= self._arrived or asyncio.get_running_loop().time() > deadline:
                return {link: link in self._arrived for link in expected}

    async def close(self) -> None:
        """End the helper processes."""
        probes, self._probes = self._probes, {}
        self._ready = set()
        await asyncio.gather(*(probe.close() for probe in probes.values()))

    async def _apply(self, cut: frozenset[Link]) -> None:
        changed = {target for _, target in cut ^ self._cut}
        await asyncio.gather(*(self._load(node, cut) for node in changed))
        self._cut = cut

    async def _load(self, node: int, cut: frozenset[Link]) -> None:
        senders = sorted(source for source, target in cut if target == node)
        rules = drop_rules([self._hosts.views[sender].address for sender in senders])
        connection = self._hosts.connection(node)
        await asyncio.to_thread(connection.run, ["nft", "-j", "-f", "-"], json.dumps(rules).encode(), privileged=True)

    async def _open_probes(self) -> None:
        await asyncio.gather(*(self._open_probe(node) for node in self._hosts.views if node not in self._probes))
        deadline = asyncio.get_running_loop().time() + READY_SECONDS
        while self._ready < set(self._probes):
            for node in set(self._probes) - self._ready:
                if self._probes[node].ended.is_set() or asyncio.get_running_loop().time() > deadline:
                    raise EnvironmentFailure(
                        f"testing links: no probe runs on {self._hosts.machines[node]}; "
                        f"it needs {self._hosts.machines[node].python} and UDP port {PROBE_PORT}"
                    )
            await asyncio.sleep(0.002)

    async def _open_probe(self, node: int) -> None:
        argv = [self._hosts.machines[node].python, "-c", PROBE, self._hosts.views[node].address, str(PROBE_PORT)]
        channel = await asyncio.to_thread(self._hosts.connection(node).stream, argv)
        self._probes[node] = LineStream(channel, lambda line: self._on_line(node, line))

    async def _send(self, node: int, links: Iterable[Link]) -> None:
        targets = [self._hosts.views[target].address for source, target in links if source == node]
        if targets:
            await self._probes[node].send(f"{self._round} {node} {' '.join(targets)}")

    async def _collect(self, links: set[Link]) -> None:
        """Wait until a datagram has arrived on each link, at most ABSENCE_SECONDS."""
        deadline = asyncio.get_running_loop().time() + ABSENCE_SECONDS
        while not links <= self._arrived and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.002)

    def _on_line(self, node: int, line: str) -> None:
        if line == "ready":
            self._ready.add(node)
            return
        number, source = map(int, line.split())
        if number == self._round:
            self._arrived.add((source, node))
