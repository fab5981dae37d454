"""The Rpcs capability of namespace hosts: starts the proxy, redirects the nodes' connections to it, and controls it.

Contains the controller's side. Does not handle messages.

    async with NamespaceRpcs.up(hosts) as rpcs:
        await rpcs.replace([RpcRule("no-pre-vote", RpcMatch((Api.VOTE,), pre_vote=True), DROP)])

Start it before the nodes, so that their first connections already pass through it; the existing connections of a
running node are reset once. The proxy ends with the process that started it, at the latest with the sandbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from harness.model import EnvironmentFailure
from harness.model.faults.rpc import CLIENTS, Route, RpcRule, RuleCount
from harness.model.hosts import Link
from harness.model.layouts import CONTROLLER_PORT
from nodes.hosts.kinds import NamespacedHosts
from nodes.proxy.control import counts_from_json
from nodes.proxy.interception import intercept, stop_interception
from nodes.proxy.namespaces import Endpoint, Namespace, outgoing
from nodes.proxy.process import ProxyProcess

PROBE_SECONDS = 5.0
"""How long a probe may take to connect, and then the proxy to accept it: the kernel completes a connection before the
proxy's event loop sees it. Both take milliseconds, longer on a busy machine; without an answer they take it all."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The file of the RPC record, and the monotonic time from which its times count."""

    rows: Path
    monotonic_origin_ns: int


class NamespaceRpcs:
    """harness.model.faults.rpc.Rpcs for namespace hosts."""

    def __init__(
        self, hosts: NamespacedHosts, ports: Sequence[int], seed: int, recording: Recording | None, clients: bool
    ) -> None:
        self._hosts, self._ports, self._seed, self._recording = hosts, ports, seed, recording
        self._sources = [*([CLIENTS] if clients else []), *hosts.views]
        self._addresses = {CLIENTS: hosts.controller_address}
        self._addresses |= {node: view.address for node, view in hosts.views.items()}
        self._namespaces = {node: Namespace(self._namespace(node)) for node in (CLIENTS, *hosts.views)}
        self._proxy: ProxyProcess | None = None

    @classmethod
    @asynccontextmanager
    async def up(
        cls,
        hosts: NamespacedHosts,
        ports: Sequence[int] = (CONTROLLER_PORT,),
        seed: int = 0,
        recording: Recording | None = None,
        clients: bool = False,
    ) -> AsyncIterator[NamespaceRpcs]:
        """Redirect the nodes' connections to these ports of each other through a proxy until the block ends.

        With clients, connections from the controller's network are redirected too, as node CLIENTS. Raises
        EnvironmentFailure.
        """
        rpcs = cls(hosts, ports, seed, recording, clients)
        try:
            await rpcs._ensure_proxy()
            yield rpcs
        finally:
            await rpcs._stop()

    @property
    def pid(self) -> int | None:
        """The pid of the proxy's process; None while there is none."""
        return self._proxy.process.pid if self._proxy is not None and self._proxy.is_alive else None

    async def replace(self, rules: Sequence[RpcRule]) -> Mapping[str, RuleCount]:
        """Replace all rules; returns the final counters of those before. Starts a new proxy if the old one is gone."""
        proxy = await self._ensure_proxy()
        return counts_from_json(await proxy.request(replace=[rule.to_json() for rule in rules]))

    async def clear(self) -> Mapping[str, RuleCount]:
        """Remove all rules; returns their final counters.

        If the proxy is gone, remove the redirect, so that nodes reach each other directly.
        """
        try:
            return counts_from_json(await self._request(replace=[]))
        except EnvironmentFailure:
            await self._stop_interception()
            return {}

    async def counts(self) -> Mapping[str, RuleCount]:
        """The counters of the current rules, by name. Raises EnvironmentFailure if the proxy is gone."""
        return counts_from_json(await self._request(counts=True))

    async def routes(self, links: Iterable[Link]) -> Mapping[Link, Route]:
        """Open a connection on each link, to the first port, and report whether it passes through the proxy."""
        probed = list(links)
        ends = await asyncio.gather(*(self._connected(link) for link in probed))
        accepted = await self._accepted_by_proxy([end for end in ends if isinstance(end, tuple)])
        routes: dict[Link, Route] = {}
        for link, end in zip(probed, ends, strict=True):
            routes[link] = end if isinstance(end, str) else "proxied" if end in accepted else "direct"
        return routes

    async def _accepted_by_proxy(self, peers: list[Endpoint]) -> set[Endpoint]:
        try:
            response = await self._request(accepted=peers, within_seconds=PROBE_SECONDS)
        except EnvironmentFailure:
            return set()
        return {(address, port) for address, port in response["accepted"]}

    async def _connected(self, link: Link) -> Endpoint | Literal["no answer", "no proxy"]:
        """Our endpoint of a connection on a link; `no proxy` if one succeeds without the redirect only.

        The server may begin to listen between two attempts, so the first is repeated before the proxy is blamed.
        """
        first = await self._probe(link, marked=False)
        if first is not None:
            return first
        if await self._probe(link, marked=True) is None:
            return "no answer"
        return await self._probe(link, marked=False) or "no proxy"

    async def _probe(self, link: Link, marked: bool) -> Endpoint | None:
        """Open and close a connection on a link; returns our endpoint, or None if it fails in PROBE_SECONDS."""
        source, target = link
        probe = await self._namespaces[source].make(lambda: outgoing(self._addresses[source], marked))
        endpoint: Endpoint = probe.getsockname()
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await asyncio.get_running_loop().sock_connect(probe, (self._addresses[target], self._ports[0]))
        except ConnectionResetError:
            return endpoint  # the connection was accepted; otherwise it would be refused
        except (OSError, TimeoutError):
            return None
        finally:
            probe.close()
        return endpoint

    async def _request(self, **request: Any) -> Mapping[str, Any]:
        assert self._proxy is not None, "up() has not started the proxy"
        return await self._proxy.request(**request)

    async def _ensure_proxy(self) -> ProxyProcess:
        """The running proxy, or a new one to which the nodes' connections are redirected."""
        if self._proxy is not None and self._proxy.is_alive:
            return self._proxy
        if self._proxy is not None:
            await self._proxy.end()
        self._proxy = await ProxyProcess.start()
        ports = (await self._proxy.request(**self._configuration()))["ports"]
        await asyncio.gather(*(self._intercept(int(node), port) for node, port in ports.items()))
        return self._proxy

    def _configuration(self) -> dict[str, Any]:
        recording = self._recording
        return {
            "listeners": [
                {"node": node, "address": self._addresses[node], "namespace": str(self._namespace(node))}
                for node in self._sources
            ],
            "seed": self._seed,
            "rows": str(recording.rows) if recording else None,
            "origin_ns": recording.monotonic_origin_ns if recording else 0,
        }

    async def _intercept(self, node: int, proxy_port: int) -> None:
        peers = [view.address for other, view in self._hosts.views.items() if other != node]
        if not peers:
            return  # a single node has no peers
        await intercept(partial(self._enter, node), peers, self._ports, proxy_port)

    async def _stop_interception(self) -> None:
        await asyncio.gather(*(stop_interception(partial(self._enter, node)) for node in self._sources))

    def _enter(self, node: int, argv: Sequence[str]) -> Sequence[str]:
        return argv if node == CLIENTS else self._hosts.enter(node, argv)

    def _namespace(self, node: int) -> Path:
        return Path("/proc/self/ns/net") if node == CLIENTS else self._hosts.network_namespace(node)

    async def _stop(self) -> None:
        try:
            await self._stop_interception()
        finally:
            if self._proxy is not None:
                await self._proxy.end()
            for namespace in self._namespaces.values():
                namespace.close()
