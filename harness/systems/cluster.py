"""The cluster of a run: which system each node runs now. A node's configuration can be changed while it is down.

    cluster = Cluster(plan)                        # raises BadInput for an unknown switch, system or release
    await cluster.of(node).prepare(host, views)
    configs = ClusterConfigs(cluster, environment.host, environment.views)     # what the nemesis changes

Contains the choice of a node's system. Does not start or stop processes (nodes.hosts), or decide when (nemesis).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from harness import plugins
from harness.model import BadInput
from harness.model.hosts import Host, HostView
from harness.model.nemesis_ops import AWAIT
from harness.model.story import CHANGE_VERSION, Step
from harness.model.systems import ClusterSpec, NodeCommand, NodeFiles, NodeSystem, SystemKind
from harness.model.transition_rules import TransitionRules, any_of
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep

Seat = tuple[SystemKind, str, Mapping[str, str]]
"""A node's system, its version, and the node's switches."""


class Cluster:
    """harness.model.systems.NodeSystem of a whole plan: each call goes to the system of the node that it concerns."""

    def __init__(self, plan: Plan) -> None:
        """Raises BadInput for an unknown switch, system or release, in the plan or in its story's changes."""
        self.plan = plan
        self.initial = {node: self.node_system(node) for node in range(1, plan.nodes + 1)}
        self.changed: dict[int, NodeSystem] = {}
        self._later = [self.node_system(1, system=name) for name in versions_in(plan.story)]

    @property
    def kind(self) -> SystemKind:
        """The system of the plan; of a mixed cluster, that of most nodes."""
        return plugins.system(self.plan.system)[0]

    @property
    def label(self) -> str:
        """The name in reports of the cluster that the run began with, e.g. 'n1 n2 kafka:4.3.1, n3 reference'."""
        return joined_label({node: system.label for node, system in self.initial.items()})

    @property
    def reads(self) -> Sequence[Path]:
        """The folders that any node reads, now or after a change that the story makes."""
        systems = (*self.initial.values(), *self._later)
        return tuple(dict.fromkeys(path for system in systems for path in system.reads))

    @property
    def spec(self) -> ClusterSpec:
        """The cluster as the system of most nodes sees it."""
        return self._spec_of(self.kind)

    def node_system(
        self, node: int, switches: Mapping[str, str] | None = None, system: str | None = None
    ) -> NodeSystem:
        """A node's system with these switches besides its own, or of another release. Raises BadInput."""
        kind, version, own = seats_of(self.plan)[node]
        if system is not None:
            kind, version = plugins.system(system)
        return kind.node(version, {**own, **(switches or {})}, self._spec_of(kind))

    def _spec_of(self, kind: SystemKind) -> ClusterSpec:
        plan, seats = self.plan, seats_of(self.plan)
        versions = frozenset(version for other, version, _ in seats.values() if other is kind)
        switches = {node: own for node, (_, _, own) in seats.items()}
        return ClusterSpec(plan.nodes, plan.seed, plan.layout, plan.voters, plan.features, versions, switches)

    async def prepare(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool = False) -> None:
        """Write the node's configuration and format its storage."""
        await self._of(host.view).prepare(host, hosts, newcomer)

    async def configure(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        """Write the node's configuration."""
        await self._of(host.view).configure(host, hosts)

    def command(self, host: HostView) -> NodeCommand:
        """The command that serves the node."""
        return self._of(host).command(host)

    def files(self, host: HostView) -> NodeFiles:
        """Where the node keeps its log and data."""
        return self._of(host).files(host)

    def _of(self, host: HostView) -> NodeSystem:
        return self.changed.get(host.node, self.initial[host.node])


class ClusterConfigs:
    """harness.model.systems.NodeConfigs of a run."""

    def __init__(self, cluster: Cluster, host: Callable[[int], Host], views: Mapping[int, HostView]) -> None:
        self._cluster, self._host, self._views = cluster, host, views

    @property
    def changed(self) -> tuple[int, ...]:
        """The nodes whose configuration differs from the one that the run began with."""
        return tuple(sorted(self._cluster.changed))

    async def change(self, node: int, switches: Mapping[str, str], system: str | None) -> str:
        """From its next start on, the node has these switches besides its own, or runs another release."""
        changed = self._cluster.node_system(node, switches, system)
        await changed.configure(self._host(node), self._views)
        self._cluster.changed[node] = changed
        return changed.label

    async def restore(self, node: int) -> None:
        """From its next start on, the node has the configuration that the run began with."""
        if self._cluster.changed.pop(node, None) is not None:
            await self._cluster.configure(self._host(node), self._views)


def seats_of(plan: Plan) -> dict[int, Seat]:
    """Each node's system, version and switches."""
    seats: dict[int, Seat] = {}
    for node in range(1, plan.nodes + 1):
        kind, version = plugins.system(plan.node_systems.get(node, plan.system))
        seats[node] = (kind, version, {**plan.switches, **plan.node_switches.get(node, {})})
    return seats


def refuse_unavailable_faults(plan: Plan, faults: Sequence[str] = ()) -> None:
    """Raise BadInput for a requested fault, or a step of the story, that the plan's system does not support."""
    system, version = plugins.system(plan.system)
    reasons = system.reasons(plan.layout, plan.voters, plan.switches)
    for name in faults:
        if name in reasons:
            raise BadInput(f"--faults {name}: {reasons[name]}")
    for step in plan.story:
        if step.f == AWAIT and step.value["condition"]["name"] in reasons:
            raise BadInput(f"story: {step.f}: {reasons[step.value['condition']['name']]}")
        fault = plugins.actions().get(step.f)
        if fault is None:
            continue
        of_fault = reasons.get(step.f) or reasons.get(fault.name) or fault.unsupported(system, step.step())
        if reason := of_fault or system.refuses(step.step(), version, plan.layout):
            raise BadInput(f"story: {step.f}: {reason}")


def systems_of(plan: Plan) -> list[str]:
    """The systems that a plan's nodes have, some of them perhaps later in the run."""
    return [plan.system, *plan.node_systems.values(), *versions_in(plan.story)]


def versions_in(story: Iterable[Step | StoryStep]) -> list[str]:
    """The systems that a story's changes of version name."""
    return [step.value["system"] for step in story if step.f == CHANGE_VERSION]


def label_of(plan: Plan) -> str:
    """The name of a plan's cluster in reports; it needs no artifacts."""
    return joined_label({node: kind.node_label(version, own) for node, (kind, version, own) in seats_of(plan).items()})


def joined_label(labels: Mapping[int, str]) -> str:
    """The one label of all nodes, or each label with the nodes that have it."""
    nodes: dict[str, list[str]] = {}
    for node, each in sorted(labels.items()):
        nodes.setdefault(each, []).append(f"n{node}")
    if len(nodes) == 1:
        return next(iter(nodes))
    return ", ".join(f"{' '.join(names)} {each}" for each, names in nodes.items())


def rules_of(plan: Plan) -> dict[int, TransitionRules]:
    """The transitions that each node may make, of nodes with such rules; no artifacts are needed for them.

    A node whose version may change follows the rules of any of its versions.
    """
    later = [plugins.system(name) for name in versions_in(plan.story)]
    rules: dict[int, TransitionRules] = {}
    for node, (kind, version, own) in seats_of(plan).items():
        possible = [kind.rules(version, own), *(other.rules(changed, own) for other, changed in later)]
        known = [each for each in possible if each is not None]
        if known:
            rules[node] = any_of(known)
    return rules
