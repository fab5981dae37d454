"""A quorum whose nodes differ: two releases of Kafka, a reference node in a seat of Kafka's, single nodes' switches.

    MixedSystem({1: kafka_4, 2: kafka_4, 3: reference})

All of them must have been given the same cluster id. What may live here: the choice of a node's recipe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.model.hosts import Host, HostView
from harness.model.quorum_states import TableName
from harness.model.systems import NodeCommand, NodeFiles, System


@dataclass(frozen=True, slots=True)
class MixedSystem:
    """harness.model.systems.System by node."""

    systems: Mapping[int, System]

    @property
    def label(self) -> str:
        """E.g. 'n1 n2 kafka:4.3.1, n3 reference'."""
        return label({node: system.label for node, system in self.systems.items()})

    @property
    def table(self) -> TableName:
        """The one that admits old ways if any node has them: a 4.x node among older ones falls back to theirs."""
        tables: set[TableName] = {system.table for system in self.systems.values()}
        return "kip-595" if "kip-595" in tables else "kip-996"

    async def configure(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        """As the node's own system does."""
        await self.systems[host.view.node].configure(host, hosts)

    async def prepare(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool = False) -> None:
        """As the node's own system does."""
        await self.systems[host.view.node].prepare(host, hosts, newcomer)

    @property
    def reads(self) -> Sequence[Path]:
        """Whatever any of the nodes' systems reads."""
        return tuple(dict.fromkeys(path for system in self.systems.values() for path in system.reads))

    def command(self, host: HostView) -> NodeCommand:
        """As the node's own system says."""
        return self.systems[host.node].command(host)

    def files(self, host: HostView) -> NodeFiles:
        """As the node's own system says."""
        return self.systems[host.node].files(host)


def label(labels: Mapping[int, str]) -> str:
    """What nodes of these labels are called together: the one label of all, or each with the nodes that bear it."""
    nodes: dict[str, list[str]] = {}
    for node, each in sorted(labels.items()):
        nodes.setdefault(each, []).append(f"n{node}")
    return next(iter(nodes)) if len(nodes) == 1 else ", ".join(f"{' '.join(who)} {each}" for each, who in nodes.items())
