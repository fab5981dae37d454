"""Real Apache Kafka as a system: formats its nodes' storage and says which command serves them.

    system = KafkaSystem(release, Layout.CONTROLLERS, cluster_id)
    await system.prepare(host, hosts.views)

Nothing here starts a server: nodes.hosts.processes does, for every system alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.model.hosts import Host, HostView
from harness.model.quorum_states import TableName
from harness.model.systems import NodeCommand, NodeFiles
from nodes.kafka.artifacts import Release
from nodes.kafka.configuration import Layout, NodeConfiguration, server_properties

HEAP_MIB = {Layout.CONTROLLERS: 128, Layout.COMBINED: 256}
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


@dataclass(frozen=True, slots=True)
class KafkaSystem:
    """A quorum of one release. overrides are properties for all nodes, node_overrides for single ones."""

    release: Release
    layout: Layout
    cluster_id: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    node_overrides: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """E.g. 'kafka:3.9.1'."""
        return f"kafka:{self.release.version}"

    @property
    def table(self) -> TableName:
        """The transition table this release follows."""
        return self.release.version.transition_table

    async def prepare(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        """Write the node's configuration and format its storage."""
        await self._configure(host, hosts)
        await self._format(host)

    @property
    def reads(self) -> Sequence[Path]:
        """The release's jars."""
        return (self.release.jars,)

    def command(self, host: HostView) -> NodeCommand:
        """The JVM that serves this node, logging to its standard output."""
        heap = f"-Xmx{HEAP_MIB[self.layout]}m"
        return NodeCommand(self._java(host, "-Xms64m", heap, "kafka.Kafka", str(_properties(host))))

    def files(self, host: HostView) -> NodeFiles:
        """This node's log and quorum-state."""
        return NodeFiles(host.readable / "server.log", host.readable / "data" / "__cluster_metadata-0" / "quorum-state")

    async def _configure(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        view = host.view
        overrides = {**self.overrides, **self.node_overrides.get(view.node, {})}
        advertises = self.release.version.advertises_controllers
        configuration = NodeConfiguration(self.layout, HEAP_MIB[self.layout], overrides, advertises)
        await host.write(_properties(view), server_properties(configuration, view, hosts))
        await host.write(_logging(view), LOG4J2 if self.release.version.logs_with_log4j2 else LOG4J)

    async def _format(self, host: Host) -> None:
        tool = ["kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(_properties(host.view))]
        await host.run(self._java(host.view, "-Xmx64m", *tool), timeout_seconds=FORMAT_SECONDS)

    def _java(self, host: HostView, *arguments: str) -> list[str]:
        style = "log4j2.configurationFile=" if self.release.version.logs_with_log4j2 else "log4j.configuration=file:"
        return ["java", *SMALL_JVM, f"-D{style}{_logging(host)}", "-cp", f"{self.release.jars}/*", *arguments]


def _properties(host: HostView) -> Path:
    return host.directory / "server.properties"


def _logging(host: HostView) -> Path:
    return host.directory / "log4j.properties"
