"""Partitions and RPC faults on local hosts: a proxy with a listener in front of every node.

Contains the controller's side. Does not handle messages.

    async with ProxyLinks.up(hosts.views) as links:
        await links.cut([(1, 2)])          # harness.model.hosts.Links
        await links.rpcs.replace([rule])   # harness.model.faults.rpc.Rpcs

A cut link is two rules, one for requests and one for responses. Messages on the link are held; when the link heals they
are lost, as packets would be, and their connections are closed. A new connection over a cut link opens but stays
silent. To test a link, the controller sends a request from the source's address to a socket of its own at the target's
address.

Nodes reach each other through the proxy only. If its process ends, its rules, their counters and the messages that it
held are lost. Every request to it then fails. Healing also fails, once, after starting a new proxy without rules.
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
from harness.model.faults.rpc import CLIENTS, HOLD_AND_LOSE, Route, RpcMatch, RpcRule, RuleCount
from harness.model.hosts import HostView, Link
from harness.model.layouts import CONTROLLER_PORT
from nodes.hosts.links import PRESENCE_SECONDS
from nodes.proxy.control import counts_from_json
from nodes.proxy.namespaces import Endpoint, outgoing
from nodes.proxy.process import ProxyProcess
from nodes.proxy.rpcs import PROBE_SECONDS, Recording
from nodes.wire.codec import API_VERSIONS, FRAME_BYTES_MAX

PROBE_PORT = 9999
CLIENTS_ADDRESS = "127.0.0.1"
ABSENCE_SECONDS = 0.1
"""How long to wait for a probe on a cut link."""
_HEAD = struct.Struct(">ihhih")


class ProxyLinks:
    """The Links of local hosts, and their Rpcs."""

    def __init__(
        self, views: Mapping[int, HostView], ports: Sequence[int], seed: int, recording: Recording | None
    ) -> None:
        self._views, self._ports, self._seed, self._recording = views, ports, seed, recording
        self._cut: frozenset[Link] = frozenset()
        self._rules: tuple[RpcRule, ...] = ()
        self._proxy: ProxyProcess | None = None
        self._arrived: set[tuple[int, Link]] = set()  # the rounds and links of probes that arrived
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
        """Listen on these ports in front of every node. Raises EnvironmentFailure."""
        links = cls(views, ports, seed, recording)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(links._stop)
            for view in views.values():
                sink = await asyncio.start_server(partial(links._receive_probe, view.node), view.bound, PROBE_PORT)
                stack.push_async_callback(sink.wait_closed)
                stack.callback(sink.close)
            await links._start_proxy()
            yield links

    async def cut(self, links: Iterable[Link]) -> None:
        """Hold all messages on these links, in addition to links that are already cut."""
        await self._apply(self._cut | frozenset(links), self._rules)

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Restore these links, or all; held messages are lost. Does nothing if nothing is cut.

        If the proxy is gone, restoring all links starts a new one, and raises EnvironmentFailure.
        """
        if links is None:
            await self._apply_or_restart(frozenset(), self._rules)
        else:
            await self._apply(self._cut - frozenset(links), self._rules)

    async def passes(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Whether a request arrives on each link; open links are retried for PRESENCE_SECONDS."""
        expected = set(links)
        deadline = asyncio.get_running_loop().time() + PRESENCE_SECONDS
        while True:
            self._round += 1
            self._arrived.clear()
            arrived = await self._probe(expected)
            if expected - self._cut <= arrived or asyncio.get_running_loop().time() > deadline:
                return {link: link in arrived for link in expected}

    async def replace(self, rules: Sequence[RpcRule]) -> Mapping[str, RuleCount]:
        """Replace all RPC rules; cuts stay. Returns the final counters of the rules before, by name."""
        return await self._apply(self._cut, tuple(rules))

    async def clear(self) -> Mapping[str, RuleCount]:
        """Remove all RPC rules; cuts stay. Returns their final counters, by name.

        If the proxy is gone, start a new one and raise EnvironmentFailure.
        """
        return await self._apply_or_restart(self._cut, ())

    async def counts(self) -> Mapping[str, RuleCount]:
        """The counters of the current RPC rules, by name, without those of cuts."""
        return self._without_cuts(counts_from_json(await self.request(counts=True)))

    async def request(self, **request: Any) -> Mapping[str, Any]:
        """Send the proxy a request; returns its response. Raises as ProxyProcess.request does."""
        assert self._proxy is not None, "up() has not started the proxy"
        return await self._proxy.request(**request)

    async def dial(self, link: Link, port: int) -> socket.socket | None:
        """Open a connection on a link as its source node would; None if it fails in PROBE_SECONDS.

        If the target's server is gone, the proxy has reset the connection.
        """
        source, target = link
        probe = outgoing(self._bound(source), marked=False)
        await self.request(claim=list(probe.getsockname()), node=source)
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await asyncio.get_running_loop().sock_connect(probe, (self._views[target].address, port))
        except ConnectionResetError:
            return probe  # the proxy accepted it, then found no server; without the proxy it would be refused
        except (OSError, TimeoutError):
            probe.close()
            return None
        return probe

    async def _start_proxy(self) -> None:
        if self._proxy is not None:
            await self._proxy.end()
        self._proxy = await ProxyProcess.start()
        await self.request(**self._configuration())

    async def _apply(self, cut: frozenset[Link], rules: tuple[RpcRule, ...]) -> Mapping[str, RuleCount]:
        """Replace cuts and rules; returns the final counters of the rules before."""
        response = await self.request(replace=[rule.to_json() for rule in (*_cut_rules(cut), *rules)])
        final = self._without_cuts(counts_from_json(response))
        self._cut, self._rules = cut, rules
        return final

    def _without_cuts(self, counts: Mapping[str, RuleCount]) -> Mapping[str, RuleCount]:
        return {rule.name: counts[rule.name] for rule in self._rules}

    async def _apply_or_restart(self, cut: frozenset[Link], rules: tuple[RpcRule, ...]) -> Mapping[str, RuleCount]:
        """Apply cuts and rules; if the proxy is gone, start a new one without any, so that nodes reach each other."""
        try:
            return await self._apply(cut, rules)
        except EnvironmentFailure as lost:
            self._cut, self._rules = frozenset(), ()
            await self._start_proxy()
            raise EnvironmentFailure(f"{lost}; a new proxy runs, without rules and cuts") from lost

    def _bound(self, node: int) -> str:
        return CLIENTS_ADDRESS if node == CLIENTS else self._views[node].bound

    async def _probe(self, links: set[Link]) -> set[Link]:
        """The links on which a request arrived; waits at most ABSENCE_SECONDS for all of them."""
        round_number = self._round
        probes = await asyncio.gather(*(self._send_probe(link) for link in links))
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

    async def _send_probe(self, link: Link) -> socket.socket | None:
        probe = await self.dial(link, PROBE_PORT)
        if probe is not None:
            with suppress(OSError):
                await asyncio.get_running_loop().sock_sendall(probe, _request(f"{self._round} {link[0]}"))
        return probe

    async def _receive_probe(self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a probe's request at a node's address and record its link."""
        try:
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            assert 0 < size <= FRAME_BYTES_MAX
            frame = await reader.readexactly(size)
            length = struct.unpack_from(">h", frame, 8)[0]
            round_number, source = map(int, frame[10 : 10 + length].split())
            self._arrived.add((round_number, (source, node)))
            self._another_arrived.set()
        except (asyncio.IncompleteReadError, OSError):
            pass  # the probe was closed while the proxy held its request
        finally:
            writer.close()

    def _configuration(self) -> dict[str, Any]:
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

    async def _stop(self) -> None:
        if self._proxy is not None:
            await self._proxy.end()


class ProxyRpcs:
    """harness.model.faults.rpc.Rpcs for local hosts."""

    def __init__(self, links: ProxyLinks) -> None:
        self._links = links

    async def replace(self, rules: Sequence[RpcRule]) -> Mapping[str, RuleCount]:
        """Replace all rules; returns the final counters of those before."""
        return await self._links.replace(rules)

    async def clear(self) -> Mapping[str, RuleCount]:
        """Remove all rules; returns their final counters.

        If the proxy is gone, starts a new one, and raises EnvironmentFailure.
        """
        return await self._links.clear()

    async def counts(self) -> Mapping[str, RuleCount]:
        """The counters of the current rules, by name, without those of cuts."""
        return await self._links.counts()

    async def routes(self, links: Iterable[Link]) -> Mapping[Link, Route]:
        """Open a connection on each link: it passes through the proxy or fails, there is no way around it."""
        probed = list(links)
        probes = await asyncio.gather(*(self._links.dial(link, CONTROLLER_PORT) for link in probed))
        accepted = await self._accepted_by_proxy([probe.getsockname() for probe in probes if probe is not None])
        routes: dict[Link, Route] = {}
        for link, probe in zip(probed, probes, strict=True):
            routes[link] = "proxied" if probe is not None and probe.getsockname() in accepted else "no answer"
        for probe in probes:
            if probe is not None:
                probe.close()
        return routes

    async def _accepted_by_proxy(self, peers: list[Endpoint]) -> set[Endpoint]:
        response = await self._links.request(accepted=peers, within_seconds=PROBE_SECONDS)
        return {(address, port) for address, port in response["accepted"]}


def _cut_rules(links: Iterable[Link]) -> list[RpcRule]:
    return [
        RpcRule(f"cut n{a}>n{b} {direction}s", RpcMatch((), direction, (a,), (b,)), HOLD_AND_LOSE)
        for a, b in sorted(links)
        for direction in ("request", "response")
    ]


def _request(client_id: str) -> bytes:
    """An ApiVersions request of version 0 (KIP-511) with this client id."""
    name = client_id.encode()
    return _HEAD.pack(_HEAD.size - 4 + len(name), API_VERSIONS, 0, 1, len(name)) + name
