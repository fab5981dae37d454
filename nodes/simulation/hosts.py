"""The capabilities of hosts on a simulated cluster, so that the faults are those of real hosts.

    links = SimulatedLinks(cluster, nodes)            # harness.model.hosts.Links
    processes = SimulatedProcesses(cluster, on_event) # harness.model.hosts.Processes

Contains Links, Processes, Rpcs, Disks, NodeConfigs and connections for clients. Does not contain what a fault is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from harness.model import PeerFailure
from harness.model.faults.rpc import Route, RpcRule, RuleCount
from harness.model.hosts import Link
from harness.model.session import NoAnswer, NotSent
from nodes.simulation.cluster import SimulatedCluster
from nodes.wire import codec

GRACE_SECONDS = 30.0
"""How long a graceful shutdown may take."""
START_SECONDS = 0.2
"""How long a process takes from its start until its node runs."""
POLL_SECONDS = 0.01
CLIENT = {"client_software_name": "splitbrain", "client_software_version": "0"}
DISK_FAULTS = ("lose_disk", "lose_unsynced", "corrupt_checkpoint")

ProcessEvent = Callable[[int, Literal["started", "stopped", "exited"], str], None]
"""Receives the node, what happened to its process, and how."""


class SimulatedLinks:
    """harness.model.hosts.Links."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._cut: set[Link] = set()

    async def cut(self, links: Iterable[Link]) -> None:
        """Drop all messages on these links, in addition to links that are already cut."""
        new = set(links) - self._cut
        self._cut |= new
        self._cluster.cut(sorted(new))

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Restore these links, or all links."""
        healed = self._cut if links is None else self._cut & set(links)
        self._cluster.restore(sorted(healed))
        self._cut = self._cut - healed

    async def passes(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Whether each link is not cut."""
        return {link: link not in self._cut for link in links}


class SimulatedProcesses:
    """harness.model.hosts.Processes."""

    def __init__(self, cluster: SimulatedCluster, nodes: Iterable[int], on_event: ProcessEvent) -> None:
        self._cluster, self._on_event = cluster, on_event
        self._states = dict.fromkeys(nodes, "gone")
        self._starting: dict[int, asyncio.TimerHandle] = {}

    async def start(self, node: int) -> None:
        """Start the node, if it is down; its code runs START_SECONDS later."""
        if self._states[node] == "gone":
            self._states[node] = "running"
            self._on_event(node, "started", "")
            self._starting[node] = asyncio.get_running_loop().call_later(START_SECONDS, self._begin, node)

    def _begin(self, node: int) -> None:
        del self._starting[node]
        self._cluster.start(node)
        if self._states[node] == "paused":
            self._cluster.pause(node)

    async def kill(self, node: int) -> None:
        """End the node at once."""
        if self._states[node] != "gone":
            if not self._cancel_start(node):
                self._cluster.kill(node)
            self._ended(node, "killed")

    def _cancel_start(self, node: int) -> bool:
        """Cancel a start whose code does not run yet; whether there was one."""
        starting = self._starting.pop(node, None)
        if starting is not None:
            starting.cancel()
        return starting is not None

    async def stop(self, node: int) -> None:
        """Shut the node down. Raises PeerFailure if it has not ended in time."""
        if self._states[node] == "gone":
            return
        if self._cancel_start(node):
            self._ended(node, "stopped")
            return
        self._cluster.stop(node)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                while self._cluster.status(node) is not None:
                    await asyncio.sleep(POLL_SECONDS)
        if self._cluster.status(node) is not None:
            raise PeerFailure(f"stop n{node}: still running after {GRACE_SECONDS:g} s")
        self._ended(node, "stopped")

    async def pause(self, node: int) -> None:
        """Stop the node's execution."""
        if self._states[node] == "running":
            self._states[node] = "paused"
            if node not in self._starting:
                self._cluster.pause(node)

    async def resume(self, node: int) -> None:
        """Go on with the node."""
        if self._states[node] == "paused":
            self._states[node] = "running"
            if node not in self._starting:
                self._cluster.resume(node)

    def state(self, node: int) -> str:
        """'running', 'paused' or 'gone'."""
        return self._states[node]

    def exited(self, node: int) -> None:
        """The node has ended without a request."""
        self._states[node] = "gone"

    def _ended(self, node: int, how: str) -> None:
        if self._states[node] != "gone":
            self._states[node] = "gone"
            self._on_event(node, "stopped", how)


class SimulatedRpcs:
    """harness.model.faults.rpc.Rpcs; the network itself applies the rules."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    async def replace(self, rules: Sequence[RpcRule]) -> Mapping[str, RuleCount]:
        """Replace all rules; returns the counters of those before."""
        return self._cluster.intercept(rules)

    async def clear(self) -> Mapping[str, RuleCount]:
        """Remove all rules; returns their counters."""
        return self._cluster.intercept(())

    async def counts(self) -> Mapping[str, RuleCount]:
        """The counters of the rules in place."""
        return self._cluster.rule_counts()

    async def routes(self, links: Iterable[Link]) -> Mapping[Link, Route]:
        """Every message passes the rules."""
        return dict.fromkeys(links, "proxied")


class SimulatedDisks:
    """harness.model.faults.disks.Disks, as far as a simulated disk can fail."""

    faulty: Sequence[int] = ()

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def unavailable(self, fault: str) -> str | None:
        """Why these disks do not support a fault."""
        return None if fault in DISK_FAULTS else f"simulated disks have {', '.join(DISK_FAULTS)} only"

    async def inject(self, node: int, fault: str, details: Mapping[str, Any]) -> dict[str, Any]:
        """Lose what is on the disk of a node that is down, what was not synced, or its quorum-state."""
        if fault == "corrupt_checkpoint":
            asked = details["checkpoint"], details["damage"]
            if asked != ("quorum-state", "missing"):
                found = " ".join(asked)
                raise PeerFailure(f"{fault} n{node}: expected quorum-state missing, on a simulated disk, found {found}")
            self._cluster.lose_quorum_state(node)
            return {}
        (self._cluster.lose_disk if fault == "lose_disk" else self._cluster.lose_unsynced)(node)
        return {}

    async def heal(self, node: int) -> None:
        """What is lost stays lost."""

    async def probe(self, node: int, fault: str, done: Mapping[str, Any]) -> str | None:  # noqa: ARG002
        """There is no process that could look."""
        return None

    async def problem(self, node: int) -> str | None:  # noqa: ARG002
        """The disk works."""
        return None


class SimulatedConfigs:
    """harness.model.systems.NodeConfigs."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._changed: set[int] = set()

    @property
    def changed(self) -> tuple[int, ...]:
        """The nodes whose configuration differs from that at the beginning of the run."""
        return tuple(sorted(self._changed))

    async def change(self, node: int, switches: Mapping[str, str], system: str | None) -> str:
        """From its next start on, the node has these switches besides its own, or is of another release.

        Raises BadInput for what it cannot have.
        """
        self._cluster.configure(node, switches, "" if system is None else system.partition(":")[2])
        self._changed.add(node)
        return system or ", ".join(f"{name}={value}" for name, value in switches.items())

    async def restore(self, node: int) -> None:
        """Restore the configuration that the run began with, with effect from the next start."""
        if node in self._changed:
            self._cluster.configure(node, {})
            self._changed.remove(node)


class SimulatedConnection:
    """harness.model.session.Connection to one node, without bytes."""

    def __init__(self, cluster: SimulatedCluster, node: int) -> None:
        self._cluster, self._node = cluster, node
        self._served: dict[int, int] | None = None

    async def call(self, request: Any, timeout_ms: int) -> Any:
        """Send a request and return its response. Raises NotSent or NoAnswer."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answer(response: Any) -> None:
            if not future.done():
                future.set_result(response)

        if not self._cluster.call(self._node, request, answer):
            raise NotSent(f"connecting to n{self._node}: connection refused")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                response = await future
        except TimeoutError as error:
            raise NoAnswer(f"waiting for n{self._node}: timed out") from error
        if response is None:
            raise NoAnswer(f"waiting for n{self._node}: the connection broke")
        return response

    async def call_latest(self, api_key: int, values: Mapping[str, Any], timeout_ms: int) -> Any:
        """Like call, from plain values, in the newest version that the node serves too."""
        if self._served is None:
            request = codec.build(codec.API_VERSIONS, codec.versions(codec.API_VERSIONS)[-1], "request", CLIENT)
            response = await self.call(request, timeout_ms)
            self._served = {int(each.api_key): int(each.max_version) for each in response.api_keys}
        newest = min(self._served.get(api_key, -1), codec.versions(api_key)[-1])
        if newest < 0:
            raise NotSent(f"sending to n{self._node}: no version of API {api_key} is supported by both sides")
        return await self.call(codec.build(api_key, newest, "request", values), timeout_ms)

    async def close(self) -> None:
        """There is nothing to close."""
