"""The server.properties of a node, as text.

Layouts: *controllers* (process.roles=controller, for quorum scenarios) and *combined* (broker and controller in one
process, with a separate listener for replication, so that a fault can cut replication but not heartbeats). Voters are
static (kraft.version 0), which every release from 3.3 on supports, or dynamic (KIP-853, kraft.version 1, from 3.9 on).
Brokers with ZooKeeper instead of a quorum have their own properties (nodes/kafka/zookeeper.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from harness.model.hosts import HostView
from harness.model.systems import CONTROLLER_PORT

CLIENT_PORT = 9092
REPLICATION_PORT = 9094


class Layout(Enum):
    """The roles of the nodes."""

    CONTROLLERS = "controllers"
    COMBINED = "combined"
    ZOOKEEPER = "zookeeper"
    """Brokers, and ZooKeeper on the last node."""


@dataclass(frozen=True, slots=True)
class NodeConfiguration:
    """The configuration of one node. overrides are properties by Kafka's names; they override all others.

    If a node binds another address than its peers use, its controller listener is advertised too, on releases that
    support it (from 3.9 on, where peers learn controllers' endpoints from each other).
    """

    layout: Layout
    overrides: Mapping[str, str] = field(default_factory=dict)
    advertises_controllers: bool = True
    dynamic_quorum: bool = False


def voters(hosts: Mapping[int, HostView]) -> str:
    """controller.quorum.voters for these hosts, e.g. 1@10.77.0.1:9093,2@10.77.0.2:9093."""
    return ",".join(f"{node}@{host.address}:{CONTROLLER_PORT}" for node, host in sorted(hosts.items()))


def bootstrap_servers(hosts: Mapping[int, HostView]) -> str:
    """controller.quorum.bootstrap.servers for these hosts: the addresses at which a node looks for the leader."""
    return ",".join(f"{host.address}:{CONTROLLER_PORT}" for _, host in sorted(hosts.items()))


def _quorum(configuration: NodeConfiguration, hosts: Mapping[int, HostView]) -> dict[str, str]:
    if configuration.dynamic_quorum:
        return {"controller.quorum.bootstrap.servers": bootstrap_servers(hosts)}
    return {"controller.quorum.voters": voters(hosts)}


def server_properties(configuration: NodeConfiguration, host: HostView, hosts: Mapping[int, HostView]) -> str:
    """The node's server.properties."""
    properties = {
        "node.id": str(host.node),
        **_quorum(configuration, hosts),
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(host.directory / "data"),
        "num.network.threads": "2",
        "num.io.threads": "2",
    }
    if configuration.layout is Layout.CONTROLLERS:
        properties |= _controller(host)
    else:
        properties |= _combined(host, len(hosts))
    if host.listens and configuration.advertises_controllers:
        advertised = [properties["advertised.listeners"]] if "advertised.listeners" in properties else []
        advertised.append(f"CONTROLLER://{host.address}:{CONTROLLER_PORT}")
        properties["advertised.listeners"] = ",".join(advertised)
    return "".join(f"{name}={value}\n" for name, value in {**properties, **configuration.overrides}.items())


def _controller(host: HostView) -> dict[str, str]:
    return {
        "process.roles": "controller",
        "listeners": f"CONTROLLER://{host.bound}:{CONTROLLER_PORT}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    }


def _combined(host: HostView, nodes: int) -> dict[str, str]:
    ports = {"PLAINTEXT": CLIENT_PORT, "REPLICATION": REPLICATION_PORT}
    advertised = ",".join(f"{name}://{host.address}:{port}" for name, port in ports.items())
    bound = ",".join(f"{name}://{host.bound}:{port}" for name, port in ports.items())
    replicas = min(3, nodes)
    return {
        "process.roles": "broker,controller",
        "listeners": f"{bound},CONTROLLER://{host.bound}:{CONTROLLER_PORT}",
        "advertised.listeners": advertised,
        "inter.broker.listener.name": "REPLICATION",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(min(2, nodes)),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(2, nodes)),
        "group.initial.rebalance.delay.ms": "0",
        "auto.leader.rebalance.enable": "false",
    }
