"""A system under test as one value: what its nodes run, how they are observed, which clients and faults it supports.

    ETCD = SystemKind(name="etcd", node=EtcdNode, observe=watch, ports=lambda layout: (2379, 2380))

`kafka` and `reference` are such values (harness/systems). Another package registers its own with the entry point group
`splitbrain.systems`, or the command line names it: `--system module:NAME`. A SystemKind makes a NodeSystem for each
node, which writes the node's configuration and returns the command that serves it. Starting, killing and observing
processes is the same code for every system.

Contains values and protocols. Does not contain any system.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.model.conditions import Condition
from harness.model.faults.membership import Membership
from harness.model.faults.reassignment import QuorumVoters
from harness.model.faults.requests import Requests
from harness.model.hosts import Host, HostView
from harness.model.records.observation import Observation
from harness.model.session import Connection
from harness.model.story import Step
from harness.model.transition_rules import TransitionRules

if TYPE_CHECKING:
    from harness.model.faults.probe import Probe  # it validates JSON, for which nodes alone do not need the library

CLUSTER_ID = "splitbrain.cluster.id"
"""The property that gives a node another cluster id than the rest of the cluster has."""
CONTROLLER_PORT_PROPERTY = "splitbrain.controller.port"
"""The property with the port of a node's controller listener."""
BOOTSTRAP_NODES = "splitbrain.bootstrap.nodes"
"""The property with the nodes that a node's controller.quorum.bootstrap.servers names, e.g. 1,2."""
FORMAT = "splitbrain.format"
"""The property that says how a node is formatted where voters change one at a time (KIP-853)."""
Report = Callable[[str], None]
"""Receives one line of progress."""


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """How to serve a node: argv, environment variables to add, and how long the process may take to end on SIGTERM."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    grace_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """A node's server log and data directory, as paths that the controller can read.

    quorum_state is Kafka's quorum-state file, None for a system without one.
    """

    log: Path
    data: Path
    quorum_state: Path | None = None


class NodeSystem(Protocol):
    """What one node runs."""

    @property
    def label(self) -> str:
        """The system's name in reports, e.g. `kafka:3.9.1`."""

    async def configure(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        """Write the node's configuration only. Raises EnvironmentFailure."""

    async def prepare(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool = False) -> None:
        """Write the node's configuration and format its storage. hosts are all nodes of the cluster.

        In a quorum with dynamic voters, a newcomer is not an initial voter, whatever its number (KIP-853). Raises
        EnvironmentFailure with the formatting tool's message.
        """

    @property
    def reads(self) -> Sequence[Path]:
        """Folders of the controller's machine that the node reads under the same paths, e.g. a release's jars."""

    def command(self, host: HostView) -> NodeCommand:
        """The command that serves this node."""

    def files(self, host: HostView) -> NodeFiles:
        """The paths of this node's log and data."""


class NodeConfigs(Protocol):
    """The configuration of each node; it can be changed while the node is down."""

    @property
    def changed(self) -> tuple[int, ...]:
        """The nodes whose configuration differs from that at the beginning of the run."""

    async def change(self, node: int, switches: Mapping[str, str], system: str | None) -> str:
        """Add these switches to the node's own, or change its release, with effect from its next start.

        Returns the node's new label. Raises BadInput for an unknown switch or system, EnvironmentFailure if the
        configuration cannot be written.
        """

    async def restore(self, node: int) -> None:
        """Restore the configuration that the run began with, with effect from the next start. Safe to repeat."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The cluster that a node belongs to.

    layout is "controllers", "combined" (controllers that are also brokers) or "zookeeper" (brokers, and ZooKeeper on
    the last node). voters is the number of initial voters in a quorum with dynamic voters, None in a static one.
    features are the feature levels that the cluster is formatted with (KIP-1022). versions are the versions of all
    nodes that run the same system. switches are each node's properties at the beginning of the run.
    """

    nodes: int
    seed: int = 0
    layout: str = "controllers"
    voters: int | None = None
    features: Mapping[str, str] = field(default_factory=dict)
    versions: frozenset[str] = frozenset()
    switches: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the nodes, in order."""
        return range(1, self.nodes + 1)


@dataclass(frozen=True, slots=True)
class ResolvedVersion:
    """An exact version whose artifacts are on this machine, and notes for the report."""

    version: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)


class Observer(Protocol):
    """Observes the nodes of a run from start() to stop() and records observations."""

    def start(self) -> None:
        """Start observing."""

    async def stop(self) -> None:
        """Stop observing. Raises the exception that an observing task failed with."""

    def forget(self, node: int) -> None:
        """Discard the last known state of a node whose process has started or ended."""

    def leader(self) -> int | None:
        """The node that claims to lead in the highest epoch; None if no node does."""

    def nodes_where(self, condition: str) -> tuple[int, ...]:
        """The nodes for which a condition of single nodes (harness.model.conditions) holds now."""

    async def until(self, condition: Condition, timeout_seconds: float) -> bool:
        """Wait until a condition (harness.model.conditions) holds; False if it does not hold in time."""


@dataclass(frozen=True, slots=True)
class ObserverContext:
    """What an observer needs: the cluster, its hosts and files, the run's clock, and what records an observation.

    now_ns returns run time; wall_origin_ns is the wall clock time at which the run began, in Unix nanoseconds.
    """

    cluster: ClusterSpec
    views: Mapping[int, HostView]
    files: Mapping[int, NodeFiles]
    now_ns: Callable[[], int]
    wall_origin_ns: int
    observe: Callable[[Observation], None]


@dataclass(frozen=True, slots=True)
class NodeAccess:
    """What a Membership, Requests or Probe needs: the cluster, its hosts, the current leader, and connections.

    connect opens a connection to a node, from the node's number, the port and the client's id, at its first use.
    stored_epoch is the epoch in a node's quorum-state, None if there is none. version is that of the plan's system.
    """

    cluster: ClusterSpec
    views: Mapping[int, HostView]
    leader: Callable[[], int | None]
    connect: Callable[[int, int, str], Connection]
    stored_epoch: Callable[[int], int | None]
    version: str = ""


async def no_versions(version: str, report: Report) -> ResolvedVersion:  # noqa: ARG001 - the shape of SystemKind.resolve
    """The default of SystemKind.resolve: the version as it is, no artifacts."""
    return ResolvedVersion(version)


def plain_label(name: str, version: str, switches: Mapping[str, str]) -> str:
    """A label such as `kafka:3.9.1 (a.timeout.ms=100)`."""
    full = f"{name}:{version}" if version else name
    shown = ", ".join(f"{key}={value}" for key, value in sorted(switches.items()))
    return f"{full} ({shown})" if shown else full


@dataclass(frozen=True, slots=True)
class Switch:
    """A property of a system's nodes that `--switch NAME=VALUE` sets; values and default are text for users."""

    name: str
    values: str
    default: str
    meaning: str


NodeFactory = Callable[[str, Mapping[str, str], ClusterSpec], NodeSystem]
"""From a resolved version, switches and the cluster to what a node runs. Raises BadInput if it cannot run so."""


@dataclass(frozen=True, slots=True)
class NodeNeeds:
    """What a node takes of the machine while a scenario runs: cores, and memory in MiB."""

    cores: float = 0.6
    memory_mib: float = 700


@dataclass(frozen=True, slots=True)
class SystemKind:
    """A system under test.

    - resolve turns a version as the user writes it (`newest 4`, or "" for default_version) into an exact one and
      fetches its artifacts. resolve_simulated does so for simulated nodes; None if that is the same.
    - node makes what one node runs. It raises BadInput for an unknown switch, version or layout.
    - label names a node in reports; it needs no artifacts.
    - rules returns the transitions that a node may make (the check `quorum` compares them with those observed), None
      for a system without such rules; it needs no artifacts.
    - observe makes the run's observer.
    - ports returns the TCP ports that nodes and clients use in a layout; the proxy covers these.
    - connect opens a connection that speaks the system's protocol, from address, port and client id.
    - client_port is the port that connect uses for clients.
    - serving returns the nodes with a listener for clients, controllers those with one for controllers; all nodes by
      default.
    - clients maps workload names to what these workloads need from this system, e.g. workloads.register.RegisterClient.
    - checks names the checks that judge every run of this system, in addition to those of the workload.
      checks_without_scenario are those of runs without a scenario, whose sides say what is measured and what may break.
    - unavailable returns the faults, capabilities, kinds of change and conditions that the system does not support,
      each with the reason, for a layout and a number of initial voters. enabled returns those of them that the system
      supports with these switches.
    - membership makes the Membership that changes the cluster's members, None if the system has none.
    - reassignment makes the QuorumVoters that reassigns the voters of the quorum, None if the system has none.
    - requests makes the Requests that sends single requests to chosen nodes, None if the system has none.
    - probe makes the Probe that asks single nodes and runs the system's tools, None if the system has none.
    - refuses returns why the system does not support the arguments of a step, from the step, the system's version and
      the layout; None if it does. It is checked before the run.
    - foreign names what of a layout does not speak Kafka's protocol, which the proxy of some hosts forwards alone; None
      if all nodes speak it.
    - node_needs is what a node takes of the machine, from which follows how many runs there may be at a time.
    - switches returns the properties that are worth setting, for `splitbrain switches`.
    - accepts returns whether the system has a property of this name. If not, a scenario's node switches omit it.
    - has_features returns whether a version has feature levels (KIP-1022).
    - has_dynamic_voters returns whether a version's quorum can begin with some of the nodes as voters (KIP-853).
    - metadata_log is the folder, below a node's log directory, of the log that the quorum replicates: Kafka's segments
      and checkpoints. It is None if there is none; then disk faults cannot damage it.
    - simulate makes a nodes.simulation.cluster.SimulatedCluster, from a version, a SimulationSpec and what receives its
      observations; None for a system that cannot run under virtual time.
    - play carries out many schedules on simulated clusters (nodes.simulation.schedule), faster than one by one; None
      for a system on which that is no faster.
    """

    name: str
    summary: str
    node: NodeFactory
    observe: Callable[[ObserverContext], Observer]
    ports: Callable[[str], Sequence[int]]
    default_version: str = ""
    resolve: Callable[[str, Report], Awaitable[ResolvedVersion]] = no_versions
    resolve_simulated: Callable[[str, Report], Awaitable[ResolvedVersion]] | None = None
    label: Callable[[str, Mapping[str, str]], str] | None = None
    rules: Callable[[str, Mapping[str, str]], TransitionRules | None] = lambda _version, _switches: None
    connect: Callable[[str, int, str], Connection] | None = None
    client_port: int = 0
    serving: Callable[[ClusterSpec], Sequence[int]] = lambda cluster: cluster.numbers
    controllers: Callable[[ClusterSpec], Sequence[int]] = lambda cluster: cluster.numbers
    clients: Mapping[str, Any] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    checks_without_scenario: tuple[str, ...] = ()
    unavailable: Callable[[str, int | None], Mapping[str, str]] = lambda _layout, _voters: {}
    enabled: Callable[[Mapping[str, str]], Collection[str]] = lambda _switches: ()
    membership: Callable[[NodeAccess], AbstractAsyncContextManager[Membership]] | None = None
    reassignment: Callable[[NodeAccess], AbstractAsyncContextManager[QuorumVoters]] | None = None
    requests: Callable[[NodeAccess], AbstractAsyncContextManager[Requests]] | None = None
    probe: Callable[[NodeAccess], AbstractAsyncContextManager[Probe]] | None = None
    refuses: Callable[[Step, str, str], str | None] = lambda _step, _version, _layout: None
    foreign: Callable[[str], str | None] = lambda _layout: None
    node_needs: NodeNeeds = NodeNeeds()
    switches: Callable[[], Iterable[Switch]] = tuple
    accepts: Callable[[str], bool] = lambda _name: True
    has_features: Callable[[str], bool] = lambda _version: False
    has_dynamic_voters: Callable[[str], bool] = lambda _version: True
    metadata_log: str | None = None
    simulate: Callable[[str, Any, Callable[[Observation], None]], Any] | None = None
    play: Callable[[str, Sequence[Any]], Sequence[Any]] | None = None

    def node_label(self, version: str, switches: Mapping[str, str]) -> str:
        """The node's name in reports."""
        return self.label(version, switches) if self.label else plain_label(self.name, version, switches)

    def reasons(self, layout: str, voters: int | None, switches: Mapping[str, str] | None = None) -> dict[str, str]:
        """`unavailable` without what is `enabled`, completed by the capabilities that the system has in no layout."""
        makers = {
            "membership": self.membership,
            "reassignment": self.reassignment,
            "requests": self.requests,
            "probe": self.probe,
        }
        missing = {name: f"not supported by --system {self.name}" for name, maker in makers.items() if maker is None}
        enabled = self.enabled(switches or {})
        unavailable = {name: why for name, why in self.unavailable(layout, voters).items() if name not in enabled}
        return {**missing, **unavailable}
