"""Kafka before KRaft: brokers that store their metadata in ZooKeeper (layout `zookeeper`, releases before 4.0).

The last node of the cluster is the one ZooKeeper server, whose jars Kafka 3.x brings; all others are brokers, one of
which is the controller. A broker has three listeners: for clients, for replication, and for the controller's requests
(control.plane.listener.name, KIP-291), so that a fault on replication leaves elections alone.

    system = ZooKeeperSystem(release, zookeeper_node=3)
    await system.prepare(host, hosts.views)

`inter.broker.protocol.version` chooses the rule by which a follower truncates its log: 0.10.2 its high watermark, 1.1
KIP-101, 2.0 and later KIP-279.

Contains the configuration and the commands of both kinds of node. Does not start them (nodes.hosts.processes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.model.hosts import Host, HostView
from harness.model.layouts import CLIENT_PORT, REPLICATION_PORT
from harness.model.systems import NodeCommand, NodeFiles
from nodes.kafka.artifacts import Release
from nodes.kafka.configuration import SMALL_BUFFERS
from nodes.kafka.system import java, label, logging_file, logging_text, properties_file

ZOOKEEPER_PORT: Final = 2181
CONTROL_PORT: Final = 9095
LISTENERS: Final = {"PLAINTEXT": CLIENT_PORT, "REPLICATION": REPLICATION_PORT, "CONTROL": CONTROL_PORT}
BROKER_PORTS: Final = tuple(LISTENERS.values())

BROKER_HEAP_MIB: Final = 256
ZOOKEEPER_HEAP_MIB: Final = 64
STATUS_COMMAND: Final = "dump"
"""ZooKeeper's command that lists sessions and their ephemeral nodes; the observer sends it."""

ZOOKEEPER: Final = {
    "clientPort": str(ZOOKEEPER_PORT),
    "admin.enableServer": "false",
    "tickTime": "500",
    "maxSessionTimeout": "120000",
    "maxClientCnxns": "0",
    "4lw.commands.whitelist": STATUS_COMMAND,
}
"""A tick of half a second, the shortest session being two ticks, grants brokers sessions of a second or longer."""


@dataclass(frozen=True, slots=True)
class ZooKeeperSystem:
    """harness.model.systems.NodeSystem of brokers of one release, and of ZooKeeper on zookeeper_node.

    overrides are properties of the brokers.
    """

    release: Release
    zookeeper_node: int
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """E.g. 'kafka:3.9.1'."""
        return label(self.release.version, self.overrides)

    @property
    def reads(self) -> Sequence[Path]:
        """The release's jars."""
        return (self.release.jars,)

    async def prepare(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool = False) -> None:  # noqa: ARG002
        """Write the node's configuration; neither a broker with ZooKeeper nor ZooKeeper formats its storage."""
        await self.configure(host, hosts)

    async def configure(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        """Write the node's configuration."""
        view = host.view
        if view.node == self.zookeeper_node:
            text = zookeeper_properties(view)
        else:
            text = broker_properties(view, hosts, self.zookeeper_node, self.overrides)
        await host.write(properties_file(view), text)
        await host.write(logging_file(view), logging_text(self.release))

    def command(self, host: HostView) -> NodeCommand:
        """The JVM that serves this node, logging to its standard output."""
        if host.node == self.zookeeper_node:
            heap, main = ZOOKEEPER_HEAP_MIB, "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        else:
            heap, main = BROKER_HEAP_MIB, "kafka.Kafka"
        return NodeCommand(java(self.release, host, "-Xms64m", f"-Xmx{heap}m", main, str(properties_file(host))))

    def files(self, host: HostView) -> NodeFiles:
        """This node's log and data."""
        return NodeFiles(host.readable / "server.log", host.readable / "data")


def zookeeper_properties(host: HostView) -> str:
    """The configuration of ZooKeeper."""
    own = {"dataDir": str(host.directory / "data" / "zookeeper"), "clientPortAddress": host.bound}
    return _text({**own, **ZOOKEEPER})


def broker_properties(
    host: HostView, hosts: Mapping[int, HostView], zookeeper_node: int, overrides: Mapping[str, str]
) -> str:
    """A broker's server.properties; overrides replace properties of these names."""
    brokers = len(hosts) - 1
    properties = {
        "broker.id": str(host.node),
        "zookeeper.connect": f"{hosts[zookeeper_node].address}:{ZOOKEEPER_PORT}",
        "zookeeper.session.timeout.ms": "3000",
        "zookeeper.connection.timeout.ms": "60000",
        "log.dirs": str(host.directory / "data"),
        "listeners": _listeners(host.bound),
        "advertised.listeners": _listeners(host.address),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in LISTENERS),
        "inter.broker.listener.name": "REPLICATION",
        "control.plane.listener.name": "CONTROL",
        "num.network.threads": "2",
        "num.io.threads": "2",
        "default.replication.factor": str(min(3, brokers)),
        "min.insync.replicas": str(min(2, brokers)),
        "offsets.topic.replication.factor": str(min(3, brokers)),
        "transaction.state.log.replication.factor": str(min(3, brokers)),
        "transaction.state.log.min.isr": str(min(2, brokers)),
        "group.initial.rebalance.delay.ms": "0",
        "auto.leader.rebalance.enable": "false",
        **SMALL_BUFFERS,
    }
    return _text({**properties, **overrides})


def _listeners(address: str) -> str:
    return ",".join(f"{name}://{address}:{port}" for name, port in LISTENERS.items())


def _text(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())
