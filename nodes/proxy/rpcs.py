"""The Rpcs capability of namespace hosts: starts the proxy, leads the nodes' connections to it, and asks it.

What may live here: the controller's side. What may not: what becomes of a message.

    async with NamespaceRpcs.up(hosts) as rpcs:
        await rpcs.replace([RpcRule("no-pre-vote", RpcMatch((Api.VOTE,), pre_vote=True), DROP)])

Bring it up before the nodes start, so that their first connections already pass through; a node that runs has its
connections reset once. The proxy ends with the process that started it, at the latest with the sandbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.model import EnvironmentFailure
from harness.model.faults.rpc import CLIENTS, RpcRule, RuleCount, Way
from harness.model.hosts import Link
from harness.model.systems import CONTROLLER_PORT
from nodes.hosts.kinds import NamespacedHosts
from nodes.proxy.interception import intercept, let_go
from nodes.proxy.namespaces import Endpoint, Namespace, outgoing
from nodes.proxy.process import ProxyProcess

PROBE_SECONDS = 0.3
"""How long a probe may take to connect, or the proxy to notice it; either takes well under a millisecond or two."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Where the proxy records each RPC that passes, and the monotonic time that the record's times count from."""

    rows: Path
    monotonic_origin_ns: int


class NamespaceRpcs:
    """harness.model.faults.rpc.Rpcs for namespace hosts, from up() to the end of its block."""

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
        """Lead what nodes send to these ports of each other through a proxy until the block ends.

        With clients, so is what the controller's own network sends, as node CLIENTS. Raises EnvironmentFailure.
        """
        rpcs = cls(hosts, ports, seed, recording, clients)
        try:
            await rpcs._ensure_proxy()
            yield rpcs
        finally:
            await rpcs._down()

    @property
    def pid(self) -> int | None:
        """The proxy's process, None while there is none."""
        return self._proxy.process.pid if self._proxy is not None and self._proxy.is_alive else None

    async def replace(self, rules: Sequence[RpcRule]) -> None:
        """Put these rules in place of all others, with a new proxy where the old one is gone."""
        proxy = await self._ensure_proxy()
        await proxy.ask(replace=[rule.to_json() for rule in rules])

    async def clear(self) -> None:
        """No rule is in place any more: where the proxy is gone, nodes reach each other around it."""
        try:
            await self._there().ask(replace=[])
        except EnvironmentFailure:
            await self._let_go()

    async def counts(self) -> Mapping[str, RuleCount]:
        """The counters of the rules in place, by name. Raises EnvironmentFailure where the proxy is gone."""
        answer = await self._there().ask(counts=True)
        return {name: RuleCount(*numbers) for name, numbers in answer["counts"].items()}

    async def ways(self, links: Iterable[Link]) -> Mapping[Link, Way]:
        """Open a connection on each link, to the first port, and see where it ends up."""
        wanted = list(links)
        probes = await asyncio.gather(*(self._probe(link, marked=False) for link in wanted))
        came = await self._came_through([probe for probe in probes if probe is not None])
        ways: dict[Link, Way] = {}
        for link, probe in zip(wanted, probes, strict=True):
            if probe is None:
                ways[link] = await self._why_no_way(link)
            else:
                ways[link] = "through" if probe in came else "around"
        return ways

    async def _came_through(self, peers: list[Endpoint]) -> set[Endpoint]:
        try:
            answer = await self._there().ask(accepted=peers, within_seconds=PROBE_SECONDS)
        except EnvironmentFailure:
            return set()
        return {(address, port) for address, port in answer["accepted"]}

    async def _why_no_way(self, link: Link) -> Way:
        """nowhere, if the node would have answered a connection that is not redirected."""
        return "silent" if await self._probe(link, marked=True) is None else "nowhere"

    async def _probe(self, link: Link, marked: bool) -> Endpoint | None:
        """Open a connection on a link and close it; our end of it, None where there was none in PROBE_SECONDS."""
        source, target = link
        probe = await self._namespaces[source].make(lambda: outgoing(self._addresses[source], marked))
        endpoint: Endpoint = probe.getsockname()
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await asyncio.get_running_loop().sock_connect(probe, (self._addresses[target], self._ports[0]))
        except ConnectionResetError:
            return endpoint  # it was accepted, or it would have been refused
        except (OSError, TimeoutError):
            return None
        finally:
            probe.close()
        return endpoint

    def _there(self) -> ProxyProcess:
        if self._proxy is None or not self._proxy.is_alive:
            raise EnvironmentFailure("asking the proxy: it is gone, and its rules with it")
        return self._proxy

    async def _ensure_proxy(self) -> ProxyProcess:
        """The proxy that runs, or a new one with the nodes led to it."""
        if self._proxy is not None and self._proxy.is_alive:
            return self._proxy
        if self._proxy is not None:
            await self._proxy.end()
        self._proxy = await ProxyProcess.start()
        ports = (await self._proxy.ask(**self._beginning()))["ports"]
        await asyncio.gather(*(self._intercept(int(node), port) for node, port in ports.items()))
        return self._proxy

    def _beginning(self) -> dict[str, Any]:
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
            return  # a single node sends nobody anything
        await intercept(partial(self._enter, node), peers, self._ports, proxy_port)

    async def _let_go(self) -> None:
        await asyncio.gather(*(let_go(partial(self._enter, node)) for node in self._sources))

    def _enter(self, node: int, argv: Sequence[str]) -> Sequence[str]:
        return argv if node == CLIENTS else self._hosts.enter(node, argv)

    def _namespace(self, node: int) -> Path:
        return Path("/proc/self/ns/net") if node == CLIENTS else self._hosts.network_namespace(node)

    async def _down(self) -> None:
        try:
            await self._let_go()
        finally:
            if self._proxy is not None:
                await self._proxy.end()
            for namespace in self._namespaces.values():
                namespace.close()
