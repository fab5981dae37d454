"""A system under test, as one value: what its nodes run, how they are observed, and which clients and faults it allows.

    ETCD = SystemKind(name="etcd", node=EtcdNode, observe=watch, ports=lambda layout: (2379, 2380))

`kafka` and `reference` are such values (harness/systems); a package outside the tree registers its own with the entry
point group `splitbrain.systems`, or names it on the command line as `--system module:NAME`. A SystemKind makes a
NodeSystem for each node: it writes the node's configuration and says which command serves it. The same code of ours
starts, kills and observes the processes of every system.

Contains values and protocols. Does not contain any system.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness.model.faults.membership import Membership
from harness.model.hosts import Host, HostView
from harness.model.quorum_states import TableName
from harness.model.records.observation import Observation
from harness.model.session import Connection

CONTROLLER_PORT = 9093
Report = Callable[[str], None]
"""Receives one line about what is happening, for progress displays."""


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """How to serve a node: argv, what to add to the environment, and how long SIGTERM may take."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    grace_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """A node's server log and data directory, as paths that the controller can read.

    quorum_state is Kafka's file of that name, None for a system that has none.
    """

    log: Path
    data: Path
    quorum_state: Path | None = None


class NodeSystem(Protocol):
    """What one node runs, e.g. labelled `kafka:3.9.1`."""

    @property
    def label(self) -> str:
        """The system's name in reports."""

    async def configure(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        """Write the host's configuration, and nothing else. Raises EnvironmentFailure."""

    async def prepare(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool = False) -> None:
        """Write the host's configuration and format its storage; `hosts` are all nodes of the cluster.

        In a quorum with dynamic voters, a newcomer is not among the initial voters, whatever its number (KIP-853).
        Raises EnvironmentFailure with the tool's message.
        """

    @property
    def reads(self) -> Sequence[Path]:
        """Folders of the controller's machine that the node reads, e.g. a release's jars, under the same paths."""

    def command(self, host: HostView) -> NodeCommand:
        """The command that serves this node."""

    def files(self, host: HostView) -> NodeFiles:
        """Where this node keeps its log and data."""


class NodeConfigs(Protocol):
    """The configuration of each node, which can be changed while the node is down."""

    @property
    def changed(self) -> tuple[int, ...]:
        """The nodes whose configuration differs from the one that the run began with."""

    async def change(self, node: int, switches: Mapping[str, str], system: str | None) -> str:
        """From its next start on, the node has these switches besides its own, or runs another release.

        Returns the node's new label. Raises BadInput for an unknown switch or system, EnvironmentFailure where the
        configuration cannot be written.
        """

    async def restore(self, node: int) -> None:
        """From its next start on, the node has the configuration that the run began with. Safe to repeat."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The cluster that a node belongs to.

    layout is "controllers" or "combined" (controllers that are brokers too). voters is the number of initial voters in
    a quorum with dynamic voters, None in a static one. features are the levels that the cluster is formatted with
    (KIP-1022). versions are those of all its nodes that run the same system.
    """

    nodes: int
    seed: int
    layout: str = "controllers"
    voters: int | None = None
    features: Mapping[str, str] = field(default_factory=dict)
    versions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ResolvedVersion:
    """The version that a user's word for one means, with its artifacts on this machine, and notes for the report."""

    version: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)


class Observer(Protocol):
    """Watches the nodes of a run and records observations, from start() to stop()."""

    def start(self) -> None:
        """Begin to watch."""

    async def stop(self) -> None:
        """Stop watching. Raises what a watcher failed with."""

    def forget(self, node: int) -> None:
        """The node's process has started or ended: what was last seen of it no longer holds."""

    def leader(self) -> int | None:
        """The node that claims to lead in the highest epoch; None while no node does."""

    def last_applied(self, node: int) -> int | None:
        """The offset up to which the node has applied the log; None where it is not known."""

    async def until(self, condition: Mapping[str, Any], timeout_seconds: float) -> bool:
        """Wait until a condition (harness.model.conditions) holds; False if it does not in time."""


@dataclass(frozen=True, slots=True)
class Observing:
    """What an observer gets: the hosts, their files, the run's clock, and where observations go.

    now_ns gives run time; wall_origin_ns is the wall clock at the run's beginning, in Unix nanoseconds. on_log_event
    receives each Observation that comes from a log line, whose time the run corrects where clocks are faulty.
    """

    views: Mapping[int, HostView]
    files: Mapping[int, NodeFiles]
    now_ns: Callable[[], int]
    wall_origin_ns: int
    observe: Callable[[Observation], None]


@dataclass(frozen=True, slots=True)
class MembershipAccess:
    """What a Membership needs: the hosts, and who leads."""

    views: Mapping[int, HostView]
    leader: Callable[[], int | None]


async def no_versions(version: str, report: Report) -> ResolvedVersion:  # noqa: ARG001 - the shape of SystemKind.resolve
    """For a system without versions of its own."""
    return ResolvedVersion(version)


def plain_label(name: str, version: str, switches: Mapping[str, str]) -> str:
    """A label such as `kafka:3.9.1 (a.timeout.ms=100)`."""
    full = f"{name}:{version}" if version else name
    shown = ", ".join(f"{key}={value}" for key, value in sorted(switches.items()))
    return f"{full} ({shown})" if shown else full


NodeFactory = Callable[[str, Mapping[str, str], ClusterSpec], NodeSystem]
"""From a resolved version, switches and the cluster to what a node runs. Raises BadInput for what it cannot be."""


@dataclass(frozen=True, slots=True)
class SystemKind:
    """A system under test.

    - resolve turns a user's version (`newest 4`, or "" for default_version) into an exact one, and fetches artifacts.
    - node makes what one node runs; it raises BadInput for a switch, version or layout that does not exist.
    - label names a node for reports; it needs no artifacts.
    - table names the transition table that a node follows, None if it has none; it needs no artifacts.
    - observe makes the run's observer.
    - ports lists the TCP ports that nodes use among themselves and for clients, by layout; the proxy covers these.
    - connect opens a connection that speaks the system's protocol, by address, port and client id.
    - clients holds what workloads need of this system, by workload name (e.g. workloads.register.RegisterClient).
    - checks are the checks that judge every run of this system, beside those of its workload.
    - unavailable gives, for a layout and a number of initial voters, the faults, capabilities and kinds of change that
      the system cannot have, each with the reason.
    - membership makes the means to change the cluster's members, None where the layout has none.
    - accepts says whether a property concerns this system; others are left out when a scenario's node settings serve
      several systems.
    - has_features says whether a version has feature levels (KIP-1022).
    """

    name: str
    summary: str
    node: NodeFactory
    observe: Callable[[Observing], Observer]
    ports: Callable[[str], Sequence[int]]
    default_version: str = ""
    resolve: Callable[[str, Report], Awaitable[ResolvedVersion]] = no_versions
    label: Callable[[str, Mapping[str, str]], str] | None = None
    table: Callable[[str, Mapping[str, str]], TableName | None] = lambda _version, _switches: None
    connect: Callable[[str, int, str], Connection] | None = None
    client_port: int = 0
    clients: Mapping[str, Any] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    unavailable: Callable[[str, int | None], Mapping[str, str]] = lambda _layout, _voters: {}
    membership: Callable[[MembershipAccess], AbstractAsyncContextManager[Membership]] | None = None
    accepts: Callable[[str], bool] = lambda _name: True
    has_features: Callable[[str], bool] = lambda _version: False

    def node_label(self, version: str, switches: Mapping[str, str]) -> str:
        """What reports call a node."""
        return self.label(version, switches) if self.label else plain_label(self.name, version, switches)
