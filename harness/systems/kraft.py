"""What Kafka and the reference system share: both are KRaft quorums that speak Kafka's protocol and keep Kafka's files.

Contains the observer, the connections and the register clients of such quorums.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from typing import Any

from harness.model.conditions import Condition
from harness.model.session import Connection
from harness.model.systems import CONTROLLER_PORT, ObserverContext
from nodes.clocks.line_times import LineTimes
from nodes.observe.conditions import holds
from nodes.observe.watch import QuorumWatch
from nodes.wire.connection import WireConnection
from workloads.register import ReadsAt, RegisterClient, RegisterSession

CHECKS = ("quorum", "divergence")


def connect(address: str, port: int, client_id: str) -> Connection:
    """A connection that speaks Kafka's protocol, opened at its first use."""
    return WireConnection(address, port, client_id)


class QuorumObserver:
    """harness.model.systems.Observer of a KRaft quorum."""

    def __init__(self, context: ObserverContext) -> None:
        line_times = LineTimes(context.now_ns, context.observe)
        self._files = context.files
        self._connections = {
            node: connect(view.bound, CONTROLLER_PORT, "splitbrain-watch") for node, view in context.views.items()
        }
        self._watch = QuorumWatch(context.now_ns, context.wall_origin_ns, line_times.observe)

    def start(self) -> None:
        """Begin to watch logs, files and DescribeQuorum."""
        self._watch.start(self._files, self._connections)

    async def stop(self) -> None:
        """Stop watching, and read the rest of the logs."""
        try:
            await self._watch.stop()
        finally:
            for connection in self._connections.values():
                await connection.close()

    def forget(self, node: int) -> None:
        """What was last seen of the node no longer holds."""
        self._watch.forget(node)

    def leader(self) -> int | None:
        """The node that claims to lead in the highest epoch."""
        return self._watch.view().leader()

    def nodes_where(self, condition: str) -> tuple[int, ...]:
        """The nodes for which a condition of single nodes holds now."""
        view = self._watch.view()
        return tuple(node for node in view.nodes if holds(Condition(condition, node), view))

    async def until(self, condition: Mapping[str, Any], timeout_seconds: float) -> bool:
        """Wait until the condition holds; False if it does not in time."""
        return await self._watch.until(Condition.from_json(condition), timeout_seconds)


def register_client(reads_at: ReadsAt) -> RegisterClient:
    """Registers in the quorum's metadata. Reads at the leader are linearizable; those at any node promise less."""
    return RegisterClient(
        lambda access, process: RegisterSession(access.nodes, access.connect, process, reads_at),
        check="register" if reads_at == "leader" else "promised-reads",
    )


def cluster_id(seed: int) -> str:
    """The cluster's id, from the plan's seed."""
    return uuid(f"cluster {seed}")


def uuid(seed: str) -> str:
    """Sixteen bytes from the seed in Kafka's base64, never with a leading dash, which Kafka's tools take for a flag."""
    raw = random.Random(seed).randbytes(16)
    return base64.urlsafe_b64encode(bytes([raw[0] & 0x7F]) + raw[1:]).decode().rstrip("=")
