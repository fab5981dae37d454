"""What a node of real Apache Kafka runs: formats its storage and returns the command that serves it.

    system = KafkaSystem(release, Roles.CONTROLLER, {1: 9093, 2: 9093, 3: 9093}, cluster_id)
    await system.prepare(host, hosts.views)

Does not start servers: nodes.hosts.processes does, for every system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.model.hosts import Host, HostView
from harness.model.layouts import Roles
from harness.model.systems import CLUSTER_ID, NodeCommand, NodeFiles
from nodes.kafka.artifacts import Release
from nodes.kafka.configuration import (
    FORMAT,
    JMX_PORT,
    SYNC_FORMAT,
    NodeConfiguration,
    controller_port,
    endpoints,
    server_properties,
)
from nodes.kafka.versions import KafkaVersion

HEAP_MIB = {Roles.CONTROLLER: 128, Roles.BROKER: 256, Roles.COMBINED: 256}
SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k", "-XX:-UsePerfData", "-Duser.timezone=UTC")
FORMAT_SECONDS = 120.0

LOG4J = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
LOG4J2 = """\
appender.stdout.type=Console
appender.stdout.name=stdout
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.stdout.ref=stdout
"""

FORMATS: Mapping[str, Sequence[str]] = {
    "initial-controllers": (),
    "no-initial-controllers": ("--no-initial-controllers",),
    "standalone": ("--standalone",),
}
"""How a node of a quorum with dynamic voters can be formatted (KIP-853), and the storage tool's flags: as one of the
initial voters, as an observer, or as the only voter of a cluster of its own."""


@dataclass(frozen=True, slots=True)
class KafkaSystem:
    """harness.model.systems.NodeSystem of nodes of one release.

    controllers are the ports of all nodes that are controllers. overrides are properties of this node.
    metadata_release is the release of the oldest node, if that is another: a node beside older ones is formatted for
    their release, so that they can read its records. features are levels that the cluster is formatted with, if not
    those of the release (KIP-1022). initial_voters are those of a quorum with dynamic voters (KIP-853), each with its
    directory id; the other nodes are observers that may join. Without them, all controllers are voters of a static
    quorum.
    """

    release: Release
    roles: Roles
    controllers: Mapping[int, int]
    cluster_id: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, str] = field(default_factory=dict)
    metadata_release: KafkaVersion | None = None
    initial_voters: Mapping[int, str] | None = None

    @property
    def label(self) -> str:
        """E.g. 'kafka:3.9.1'."""
        return label(self.release.version, self.overrides)

    async def prepare(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool = False) -> None:
        """Write the node's configuration and format its storage.

        What the storage tool leaves unsynced is synced, unless SYNC_FORMAT is false: nodes are formatted long before a
        power failure, which is what their servers are tested with.
        """
        await self.configure(host, hosts)
        await self._format(host, hosts, newcomer)
        if self.overrides.get(SYNC_FORMAT, "true") == "true":
            data = str(host.view.directory / "data")
            await host.run(["find", data, "-type", "f", "-exec", "sync", "{}", "+"])

    @property
    def reads(self) -> Sequence[Path]:
        """The release's jars."""
        return (self.release.jars,)

    def command(self, host: HostView) -> NodeCommand:
        """The JVM that serves this node, logging to its standard output."""
        options = ["-Xms64m", f"-Xmx{HEAP_MIB[self.roles]}m", *jmx_options(host, self.overrides)]
        return NodeCommand(java(self.release, host, *options, "kafka.Kafka", str(properties_file(host))))

    def files(self, host: HostView) -> NodeFiles:
        """This node's log and quorum-state."""
        data = host.readable / "data"
        return NodeFiles(host.readable / "server.log", data, data / "__cluster_metadata-0" / "quorum-state")

    async def configure(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        """Write the node's configuration."""
        view = host.view
        advertises, is_dynamic = self.release.version.advertises_controllers, self.initial_voters is not None
        own = {view.node: controller_port(self.overrides)} if self.roles.are_controller else {}
        controllers = {**self.controllers, **own}
        configuration = NodeConfiguration(self.roles, controllers, self.overrides, advertises, is_dynamic)
        await host.write(properties_file(view), server_properties(configuration, view, hosts))
        await host.write(logging_file(view), logging_text(self.release))

    async def _format(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool) -> None:
        own_cluster = self.overrides.get(CLUSTER_ID, self.cluster_id)
        tool = ["kafka.tools.StorageTool", "format", "-t", own_cluster, "-c", str(properties_file(host.view))]
        if self.metadata_release is not None:
            tool += ["--release-version", f"{self.metadata_release.major}.{self.metadata_release.minor}"]
        for name, level in self.features.items():
            tool += ["--feature", f"{name}={level}"]
        if self.initial_voters is not None:
            joins_later = newcomer or host.view.node not in self.initial_voters
            given = self.overrides.get(FORMAT, "no-initial-controllers" if joins_later else "initial-controllers")
            tool += FORMATS[given] or _first_quorum(self.initial_voters, hosts, self.controllers)
        await host.run(java(self.release, host.view, "-Xmx64m", *tool), timeout_seconds=FORMAT_SECONDS)


def jmx_options(host: HostView, overrides: Mapping[str, str]) -> list[str]:
    """What makes the JVM serve its metrics on this port of the host, if the node's properties have JMX_PORT."""
    port = overrides.get(JMX_PORT)
    if port is None:
        return []
    remote = {"port": port, "rmi.port": port, "authenticate": "false", "ssl": "false", "host": host.bound}
    options = [f"-Dcom.sun.management.jmxremote.{name}={value}" for name, value in remote.items()]
    return [*options, f"-Djava.rmi.server.hostname={host.address}"]


def java(release: Release, host: HostView, *arguments: str) -> list[str]:
    """A JVM on this host with the release's jars, which logs to its standard output."""
    style = "log4j2.configurationFile=" if release.version.logs_with_log4j2 else "log4j.configuration=file:"
    return ["java", *SMALL_JVM, f"-D{style}{logging_file(host)}", "-cp", f"{release.jars}/*", *arguments]


def logging_text(release: Release) -> str:
    """The configuration of the logging library that the release needs."""
    return LOG4J2 if release.version.logs_with_log4j2 else LOG4J


def label(version: KafkaVersion, overrides: Mapping[str, str]) -> str:
    """The label of a node with this version and these properties, e.g. 'kafka:3.9.1 (a.timeout.ms=100)'."""
    shown = ", ".join(f"{name}={value}" for name, value in sorted(overrides.items()))
    return f"kafka:{version} ({shown})" if shown else f"kafka:{version}"


def _first_quorum(
    voters: Mapping[int, str], hosts: Mapping[int, HostView], controllers: Mapping[int, int]
) -> list[str]:
    """The storage tool's arguments for an initial voter of a quorum with dynamic voters."""
    reached = endpoints(hosts, controllers)
    voter_list = (f"{voter}@{reached[voter]}:{directory}" for voter, directory in voters.items())
    return ["--initial-controllers", ",".join(voter_list)]


def properties_file(host: HostView) -> Path:
    """The configuration of the node."""
    return host.directory / "server.properties"


def logging_file(host: HostView) -> Path:
    """The configuration of the node's logging library."""
    return host.directory / "log4j.properties"
