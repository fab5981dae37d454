"""Cut links between SSH hosts: nft drops what a peer sends, on the receiver, as between namespaces of one machine.

Only nodes' addresses stand in the table: the way over which the controller mends stays open. Whether a link passes is
tried with a datagram from a helper on the sender to one on the receiver.
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
"""Above those that only root may bind."""
ABSENCE_SECONDS = 0.3
"""How long a probe may be missing on a link that is cut: its sender is asked, and its receiver tells, over SSH."""
READY_SECONDS = 10.0


class SshLinks:
    """The Links capability of SSH hosts; needs root there, or sudo."""

    def __init__(self, hosts: SshHosts) -> None:
        self._hosts = hosts
        self._cut: frozenset[Link] = frozenset()
        self._probes: dict[int, LineStream] = {}
        self._ready: set[int] = set()
        self._round = 0  # of probes: one that arrives after its round has ended counts for nothing
        self._arrived: set[Link] = set()

    async def cut(self, links: Iterable[Link]) -> None:
        """Drop what travels on these links, besides what is dropped already."""
        await self._apply(self._cut | frozenset(links))

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Let these links through again, or all, with no table of ours left; harmless when nothing is cut."""
        await self._apply(frozenset() if links is None else self._cut - frozenset(links))

    async def passes(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Send datagrams on each link and see which arrive; where we did not cut, for a while."""
        await self._open_probes()
        wanted = set(links)
        self._round += 1
        self._arrived = set()
        deadline = asyncio.get_running_loop().time() + PRESENCE_SECONDS
        while True:
            await asyncio.gather(*(self._send(node, wanted - self._arrived) for node in self._probes))
            await self._collect(wanted)
            if wanted - self._cut <= self._arrived or asyncio.get_running_loop().time() > deadline:
                return {link: link in self._arrived for link in wanted}

    async def close(self) -> None:
        """End the probes' helpers."""
        probes, self._probes = self._probes, {}
        self._ready = set()
        await asyncio.gather(*(probe.close() for probe in probes.values()))

    async def _apply(self, wanted: frozenset[Link]) -> None:
        changed = {target for _, target in wanted ^ self._cut}
        await asyncio.gather(*(self._load(node, wanted) for node in changed))
        self._cut = wanted

    async def _load(self, node: int, wanted: frozenset[Link]) -> None:
        senders = sorted(source for source, target in wanted if target == node)
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
                        f"trying links: no probe runs on {self._hosts.machines[node]}; "
                        f"it needs {self._hosts.machines[node].python} and UDP port {PROBE_PORT}"
                    )
            await asyncio.sleep(0.002)

    async def _open_probe(self, node: int) -> None:
        words = [self._hosts.views[node].address, str(PROBE_PORT)]
        argv = [self._hosts.machines[node].python, "-c", PROBE, *words]
        channel = await asyncio.to_thread(self._hosts.connection(node).stream, argv)
        self._probes[node] = LineStream(channel, lambda line: self._hear(node, line))

    async def _send(self, node: int, wanted: Iterable[Link]) -> None:
        targets = [self._hosts.views[target].address for source, target in wanted if source == node]
        if targets:
            await self._probes[node].send(f"{self._round} {node} {' '.join(targets)}")

    async def _collect(self, wanted: set[Link]) -> None:
        """Wait until each link's datagram has come or ABSENCE_SECONDS went by."""
        deadline = asyncio.get_running_loop().time() + ABSENCE_SECONDS
        while not wanted <= self._arrived and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.002)

    def _hear(self, node: int, line: str) -> None:
        if line == "ready":
            self._ready.add(node)
            return
        number, source = map(int, line.split())
        if number == self._round:
            self._arrived.add((source, node))
