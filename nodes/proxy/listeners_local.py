"""Partitions and RPC faults on local hosts: a proxy with a door in front of every node.

What may live here: the controller's side. What may not: what becomes of a message.

    async with ProxyLinks.up(hosts.views) as doors:
        await doors.cut([(1, 2)])          # harness.model.hosts.Links
        await doors.rpcs.replace([rule])   # harness.model.faults.rpc.Rpcs

A cut link is two rules: what the one sends the other, as a request or as an answer, waits, and is lost when the link
is mended, as packets would be; its connection is closed then. To whoever connects over a cut link the connection opens,
and stays silent. A link is tried with a request of ours from the one's side to a socket of ours at the other's.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

from harness.model import EnvironmentFailure
from harness.model.faults.rpc import CLIENTS, HOLD_AND_LOSE, RpcMatch, RpcRule, RuleCount, Way
from harness.model.hosts import HostView, Link
from harness.model.systems import CONTROLLER_PORT
from nodes.proxy.namespaces import Endpoint, outgoing
from nodes.proxy.process import ProxyProcess
from nodes.proxy.rpcs import PROBE_SECONDS, Recording
from nodes.wire.codec import API_VERSIONS, FRAME_BYTES_MAX

PROBE_PORT = 9999
CLIENTS_ADDRESS = "127.0.0.1"
ABSENCE_SECONDS = 0.1
"""How long a probe may be missing on a link that is cut."""
PRESENCE_SECONDS = 2.0
"""How long probes are sent on a link that is not cut before it counts as dead."""
_HEAD = struct.Struct(">ihhih")


class ProxyLinks:
    """The Links of local hosts, and their Rpcs beside, from up() to the end of its block."""

    def __init__(
        self, views: Mapping[int, HostView], ports: Sequence[int], seed: int, recording: Recording | None
    ) -> None:
        self._views, self._ports, self._seed, self._recording = views, ports, seed, recording
        self._cut: frozenset[Link] = frozenset()
        self.rules: tuple[RpcRule, ...] = ()
        self._proxy: ProxyProcess | None = None
        self._arrived: set[tuple[int, Link]] = set()  # probes, by round
        self._another_arrived = asyncio.Event()
        self._round = 0
        self.rpcs = ProxyRpcs(self)

    @classmethod
    @asynccontextmanager
    async def up(
        cls,
        views: Mapping[int, HostView],
        ports: Sequence[int] = (CONTROLLER_PORT,),
        seed: int = 0,
        recording: Recording | None = None,
    ) -> AsyncIterator[ProxyLinks]:
        """Open a door for each of these ports in front of every node. Raises EnvironmentFailure."""
        doors = cls(views, ports, seed, recording)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(doors._down)
            for view in views.values():
                sink = await asyncio.start_server(partial(doors._take_probes, view.node), view.bound, PROBE_PORT)
                stack.push_async_callback(sink.wait_closed)
                stack.callback(sink.close)
            await doors.proxy()
            yield doors

    async def cut(self, links: Iterable[Link]) -> None:
        """What travels on these links waits from now on, besides what waits already."""
        self._cut |= frozenset(links)
        await self._apply()

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Let these links through again, or all; what waited is lost. Harmless when nothing is cut."""
        self._cut = frozenset() if links is None else self._cut - frozenset(links)
        await self._apply()

    async def passes(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Send a request on each link and see which arrive; where we did not cut, for a while."""
        wanted = set(links)
        deadline = asyncio.get_running_loop().time() + PRESENCE_SECONDS
        while True:
            self._round += 1
            self._arrived.clear()
            arrived = await self._try(wanted)
            if wanted - self._cut <= arrived or asyncio.get_running_loop().time() > deadline:
                return {link: link in arrived for link in wanted}

    async def proxy(self) -> ProxyProcess:
        """The proxy that runs, or a new one at the same doors, with the same rules."""
        if self._proxy is not None and self._proxy.is_alive:
            return self._proxy
        if self._proxy is not None:
            await self._proxy.end()
        self._proxy = await ProxyProcess.start()
        await self._proxy.ask(**self._beginning())
        await self._apply()
        return self._proxy

    def there(self) -> ProxyProcess:
        """The proxy as it is. Raises EnvironmentFailure where it is gone."""
        if self._proxy is None or not self._proxy.is_alive:
            raise EnvironmentFailure("asking the proxy: it is gone, and its rules with it")
        return self._proxy

    async def replace(self, rules: Sequence[RpcRule]) -> None:
        """Put these RPC rules in place of all others; cuts stay."""
        self.rules = tuple(rules)
        await self._apply()

    async def dial(self, link: Link, port: int) -> socket.socket | None:
        """Open a connection on a link as the first node would; None where there was none in PROBE_SECONDS."""
        source, target = link
        probe = await asyncio.to_thread(partial(outgoing, self._bound(source), marked=False))
        await (await self.proxy()).ask(claim=list(probe.getsockname()), node=source)
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await asyncio.get_running_loop().sock_connect(probe, (self._views[target].address, port))
        except (OSError, TimeoutError):
            probe.close()
            return None
        return probe

    async def _apply(self) -> None:
        proxy = await self.proxy()
        await proxy.ask(replace=[rule.to_json() for rule in (*_cutting(self._cut), *self.rules)])

    def _bound(self, node: int) -> str:
        return CLIENTS_ADDRESS if node == CLIENTS else self._views[node].bound

    async def _try(self, links: set[Link]) -> set[Link]:
        """The links on which a request came through, waiting until all did or ABSENCE_SECONDS went by."""
        round_number = self._round
        probes = await asyncio.gather(*(self._send(link) for link in links))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(ABSENCE_SECONDS):
                    while not {(round_number, link) for link in links} <= self._arrived:
                        self._another_arrived.clear()
                        await self._another_arrived.wait()
        finally:
            for probe in probes:
                if probe is not None:
                    probe.close()
        return {link for number, link in self._arrived if number == round_number}

    async def _send(self, link: Link) -> socket.socket | None:
        probe = await self.dial(link, PROBE_PORT)
        if probe is not None:
            with suppress(OSError):
                await asyncio.get_running_loop().sock_sendall(probe, _request(f"{self._round} {link[0]}"))
        return probe

    async def _take_probes(self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A socket of ours at a node's side: note whose request came."""
        try:
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            assert 0 < size <= FRAME_BYTES_MAX
            frame = await reader.readexactly(size)
            length = struct.unpack_from(">h", frame, 8)[0]
            round_number, source = map(int, frame[10 : 10 + length].split())
            self._arrived.add((round_number, (source, node)))
            self._another_arrived.set()
        except (asyncio.IncompleteReadError, OSError):
            pass  # a probe whose request waits at the proxy closes unheard
        finally:
            writer.close()

    def _beginning(self) -> dict[str, Any]:
        recording = self._recording
        ports = [*self._ports, PROBE_PORT]
        return {
            "listeners": [
                {"node": node, "address": view.address, "bound": view.bound, "ports": ports}
                for node, view in self._views.items()
            ],
            "seed": self._seed,
            "rows": str(recording.rows) if recording else None,
            "origin_ns": recording.monotonic_origin_ns if recording else 0,
        }

    async def _down(self) -> None:
        if self._proxy is not None:
            await self._proxy.end()


class ProxyRpcs:
    """harness.model.faults.rpc.Rpcs at the doors."""

    def __init__(self, doors: ProxyLinks) -> None:
        self._doors = doors

    async def replace(self, rules: Sequence[RpcRule]) -> None:
        """Put these rules in place of all others."""
        await self._doors.replace(rules)

    async def clear(self) -> None:
        """No rule is in place any more; where the proxy is gone there is a new one."""
        await self._doors.replace(())

    async def counts(self) -> Mapping[str, RuleCount]:
        """The counters of the rules in place, by name, without those that are cuts."""
        answer = await self._doors.there().ask(counts=True)
        ours = {rule.name for rule in self._doors.rules}
        return {name: RuleCount(*numbers) for name, numbers in answer["counts"].items() if name in ours}

    async def ways(self, links: Iterable[Link]) -> Mapping[Link, Way]:
        """Open a connection on each link: there is no way around a door."""
        wanted = list(links)
        probes = await asyncio.gather(*(self._doors.dial(link, CONTROLLER_PORT) for link in wanted))
        came = await self._came([probe.getsockname() for probe in probes if probe is not None])
        ways: dict[Link, Way] = {}
        for link, probe in zip(wanted, probes, strict=True):
            ways[link] = "through" if probe is not None and probe.getsockname() in came else "silent"
        for probe in probes:
            if probe is not None:
                probe.close()
        return ways

    async def _came(self, peers: list[Endpoint]) -> set[Endpoint]:
        answer = await self._doors.there().ask(accepted=peers, within_seconds=PROBE_SECONDS)
        return {(address, port) for address, port in answer["accepted"]}


def _cutting(links: Iterable[Link]) -> list[RpcRule]:
    return [
        RpcRule(f"cut n{a}>n{b} {direction}s", RpcMatch((), direction, (a,), (b,)), HOLD_AND_LOSE)
        for a, b in sorted(links)
        for direction in ("request", "response")
    ]


def _request(client_id: str) -> bytes:
    """An ApiVersions request of version 0 (KIP-511) under a name that says what it is."""
    name = client_id.encode()
    return _HEAD.pack(_HEAD.size - 4 + len(name), API_VERSIONS, 0, 1, len(name)) + name
