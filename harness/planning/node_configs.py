"""The system of a run as it is just now: a node can be given other switches, or another release, while it is down.

    system = ReconfigurableSystem(plan)                       # a System like any other; build(plan) is what it begins
    with
    node_configs = RunNodeConfigs(system, environment)               # what the nemesis changes it by

What may live here: which recipe a node has. What may not: starting and stopping (nodes.hosts), or when (nemesis).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.environments import Environment
from harness.model.hosts import Host, HostView
from harness.model.quorum_states import TableName
from harness.model.systems import NodeCommand, NodeFiles, System
from harness.planning.plan import Plan
from harness.planning.systems import build, node_system, versions_in


class ReconfigurableSystem:
    """harness.model.systems.System whose nodes' node_configs may change."""

    def __init__(self, plan: Plan) -> None:
        """Raises BadInput for a switch, system or release that there is not, those of the story's changes included."""
        self.plan = plan
        self.whole = build(plan)
        self.nodes: dict[int, System] = {}
        for version in versions_in(plan.story):
            node_system(plan, 1, {}, version)

    @property
    def label(self) -> str:
        """What the run began with."""
        return self.whole.label

    @property
    def table(self) -> TableName:
        """What the run began with."""
        return self.whole.table

    @property
    def reads(self) -> Sequence[Path]:
        """Whatever any recipe of the run reads, those of changes to come included."""
        later = [node_system(self.plan, 1, {}, version) for version in versions_in(self.plan.story)]
        return tuple(dict.fromkeys(path for system in (self.whole, *later) for path in system.reads))

    async def prepare(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool = False) -> None:
        """As the node's present recipe does."""
        await self._of(host.view).prepare(host, hosts, newcomer)

    async def configure(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        """As the node's present recipe does."""
        await self._of(host.view).configure(host, hosts)

    def command(self, host: HostView) -> NodeCommand:
        """As the node's present recipe says."""
        return self._of(host).command(host)

    def files(self, host: HostView) -> NodeFiles:
        """As the node's present recipe says."""
        return self._of(host).files(host)

    def _of(self, host: HostView) -> System:
        return self.nodes.get(host.node, self.whole)


class RunNodeConfigs:
    """harness.model.systems.NodeConfigs of a run."""

    def __init__(self, system: ReconfigurableSystem, environment: Environment) -> None:
        self._system, self._ground = system, environment

    @property
    def changed(self) -> tuple[int, ...]:
        """The nodes whose system is not the one that the run began with."""
        return tuple(sorted(self._system.nodes))

    async def change(self, node: int, switches: Mapping[str, str], system: str | None) -> str:
        """From its next start on, a node has these switches besides its own, or another release."""
        recipe = node_system(self._system.plan, node, switches, system)
        await recipe.configure(self._ground.host(node), self._ground.views)
        self._system.nodes[node] = recipe
        return recipe.label

    async def restore(self, node: int) -> None:
        """From its next start on, the node is as the run began with it."""
        if node in self._system.nodes:
            await self._system.whole.configure(self._ground.host(node), self._ground.views)
            del self._system.nodes[node]
