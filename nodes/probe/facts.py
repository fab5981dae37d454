"""Facts about a running cluster, for the placeholders of harness.model.placeholders.

Epoch, log end and high watermark come from the leader's answer to a DescribeQuorum request of its own, so that they are
not older than the step that uses them. Sources: KIP-595 (DescribeQuorum, the quorum-state file).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from harness.model import PeerFailure
from harness.model.placeholders import OF_QUORUM, Facts
from harness.model.session import Connection
from nodes.observe.describe_quorum import describe_quorum

DESCRIBE_MS = 10_000
"""Long enough for the first answer of a node on an overloaded machine."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What is known of a cluster: its nodes' connections and addresses, its leader, its files and its id.

    controllers and brokers map nodes to host:port. stored_epoch is the epoch in a node's quorum-state, None if there
    is none. cluster_id is None if nobody chose it.
    """

    connections: Mapping[int, Connection]
    leader: Callable[[], int | None]
    controllers: Mapping[int, str]
    brokers: Mapping[int, str]
    stored_epoch: Callable[[int], int | None]
    cluster_id: str | None

    async def of(self, names: Collection[str], node: int | None) -> Facts:
        """The facts of these names. Raises PeerFailure for what is not known."""
        described = await self._described() if OF_QUORUM.keys() & set(names) else {}
        return {name: self._known(name, described, node) for name in names}

    def _known(self, name: str, described: Mapping[str, Any], node: int | None) -> Any:
        fact = described[name] if name in described else self._lookup(name, node)
        if fact is None or fact == "":
            raise PeerFailure(f"placeholder ${name}: not known in this cluster now")
        return fact

    def _lookup(self, name: str, node: int | None) -> Any:
        match name:
            case "node":
                return node
            case "leader":
                return self.leader()
            case "other":
                return min(set(self.connections) - {node, self.leader()}, default=None)
            case "own_epoch":
                return None if node is None else self.stored_epoch(node)
            case "cluster_id":
                return self.cluster_id
            case "controllers":
                return ",".join(self.controllers.values())
            case "brokers":
                return ",".join(self.brokers.values())
        number, _, kind = name.removeprefix("n").partition("_")
        if kind == "host":
            return {**self.brokers, **self.controllers}.get(int(number), "").rpartition(":")[0]
        return {"controller": self.controllers, "broker": self.brokers}[kind].get(int(number))

    async def _described(self) -> dict[str, Any]:
        leader = self.leader()
        if leader is None:
            raise PeerFailure("placeholders of the quorum: no node claims to lead")
        answer = await describe_quorum(self.connections[leader], DESCRIBE_MS)
        if answer.error is not None:
            raise PeerFailure(f"placeholders of the quorum: expected n{leader} to lead, found {answer.error}")
        return {"epoch": answer.epoch, "log_end": answer.log_end_offset, "high_watermark": answer.high_watermark}
