"""The server.properties of a node, as text.

Layouts: *controllers* (process.roles=controller, for quorum scenarios) and *combined* (broker and controller in one
process, with a separate listener for replication, so that a fault can cut replication but not heartbeats). A node may
have roles of its own: a broker or a controller alone in a combined layout, for instance. Voters are
static (kraft.version 0), which every release from 3.3 on supports, or dynamic (KIP-853, kraft.version 1, from 3.9 on).
Brokers with ZooKeeper instead of a quorum have their own properties (nodes/kafka/zookeeper.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.model import BadInput
from harness.model.hosts import HostView
from harness.model.layouts import CLIENT_PORT, CONTROLLER_PORT, REPLICATION_PORT, Roles
from harness.model.systems import BOOTSTRAP_NODES, CLUSTER_ID, CONTROLLER_PORT_PROPERTY, FORMAT

SMALL_BUFFERS = {"log.cleaner.dedupe.buffer.size": str(16 << 20)}
"""A broker's log cleaner takes 128 MiB by default when it starts, half of the heap (nodes.kafka.system.HEAP_MIB)."""
CONTROLLER = "CONTROLLER"
"""The name of the listener for other nodes of the quorum."""

JMX_PORT = "splitbrain.jmx.port"
SYNC_FORMAT = "splitbrain.format.sync"
SIMULATION_LOG = "splitbrain.simulation.log"
OWN_PROPERTIES = (
    *(JMX_PORT, CONTROLLER_PORT_PROPERTY, CLUSTER_ID, FORMAT, SYNC_FORMAT, BOOTSTRAP_NODES),
    SIMULATION_LOG,
)
"""Properties of a node that Kafka does not know: the port of its JVM's metrics, the port of its controller listener,
the id of the cluster that it is formatted for, how it is formatted (nodes.kafka.system.FORMATS), whether what the
storage tool left unsynced is synced then, the nodes that its controller.quorum.bootstrap.servers names, and, for a
simulated node, what its log is (nodes.simulation.kafka.cluster.LOG_KINDS); on processes it is always in files."""


def controller_port(switches: Mapping[str, str]) -> int:
    """The port of a node's controller listener. Raises BadInput."""
    given = switches.get(CONTROLLER_PORT_PROPERTY, str(CONTROLLER_PORT))
    if not given.isdecimal() or not 1024 <= int(given) <= 65_535:
        raise BadInput(f"{CONTROLLER_PORT_PROPERTY}={given}: expected a port, 1024 to 65535")
    return int(given)


@dataclass(frozen=True, slots=True)
class NodeConfiguration:
    """The configuration of one node. overrides are properties by Kafka's names; they override all others.

    controllers are the ports of all nodes that are controllers. If a node binds another address than its peers use, its
    controller listener is advertised too, on releases that support it (from 3.9 on, where peers learn controllers'
    endpoints from each other).
    """

    roles: Roles
    controllers: Mapping[int, int]
    overrides: Mapping[str, str] = field(default_factory=dict)
    advertises_controllers: bool = True
    dynamic_quorum: bool = False


def endpoints(hosts: Mapping[int, HostView], controllers: Mapping[int, int]) -> dict[int, str]:
    """host:port of each controller."""
    return {node: f"{hosts[node].address}:{port}" for node, port in sorted(controllers.items())}


def voters(hosts: Mapping[int, HostView], controllers: Mapping[int, int]) -> str:
    """controller.quorum.voters, e.g. 1@10.77.0.1:9093,2@10.77.0.2:9093."""
    return ",".join(f"{node}@{endpoint}" for node, endpoint in endpoints(hosts, controllers).items())


def bootstrap_servers(hosts: Mapping[int, HostView], controllers: Mapping[int, int]) -> str:
    """controller.quorum.bootstrap.servers: the addresses at which a node looks for the leader."""
    return ",".join(endpoints(hosts, controllers).values())


def bootstrap_nodes(switches: Mapping[str, str], controllers: Mapping[int, int]) -> dict[int, int]:
    """The controllers that a node's BOOTSTRAP_NODES names, e.g. 1,2; all without the property. Raises BadInput."""
    given = switches.get(BOOTSTRAP_NODES)
    if given is None:
        return dict(controllers)
    try:
        return {node: controllers[node] for node in map(int, given.split(","))}
    except (ValueError, KeyError):
        expected = ",".join(map(str, controllers))
        raise BadInput(f"{BOOTSTRAP_NODES}={given}: expected numbers of controllers, among {expected}") from None


def _quorum(configuration: NodeConfiguration, hosts: Mapping[int, HostView]) -> dict[str, str]:
    """How the node finds the quorum. One whose property names nodes has no list of voters, even in a static quorum."""
    if configuration.dynamic_quorum or BOOTSTRAP_NODES in configuration.overrides:
        named = bootstrap_nodes(configuration.overrides, configuration.controllers)
        return {"controller.quorum.bootstrap.servers": bootstrap_servers(hosts, named)}
    return {"controller.quorum.voters": voters(hosts, configuration.controllers)}


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
    roles = configuration.roles
    listeners = _listeners(configuration, host.bound)
    advertised = _listeners(configuration, host.address)
    if not (host.listens and configuration.advertises_controllers):
        advertised.pop(CONTROLLER, None)
    properties |= {
        "process.roles": roles.value,
        "listeners": _joined(listeners),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in {**listeners, CONTROLLER: ""}),
    }
    if advertised:
        properties["advertised.listeners"] = _joined(advertised)
    if roles.are_broker:
        properties |= _broker(len(hosts))
    set_here = {name: value for name, value in configuration.overrides.items() if name not in OWN_PROPERTIES}
    return "".join(f"{name}={value}\n" for name, value in {**properties, **set_here}.items())


def _listeners(configuration: NodeConfiguration, address: str) -> dict[str, str]:
    """The node's listeners by name, at this address."""
    ports = {"PLAINTEXT": CLIENT_PORT, "REPLICATION": REPLICATION_PORT} if configuration.roles.are_broker else {}
    if configuration.roles.are_controller:
        ports[CONTROLLER] = controller_port(configuration.overrides)
    return {name: f"{address}:{port}" for name, port in ports.items()}


def _joined(listeners: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{endpoint}" for name, endpoint in listeners.items())


def _broker(nodes: int) -> dict[str, str]:
    replicas = min(3, nodes)
    return {
        "inter.broker.listener.name": "REPLICATION",
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(min(2, nodes)),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(2, nodes)),
        "group.initial.rebalance.delay.ms": "0",
        "auto.leader.rebalance.enable": "false",
        **SMALL_BUFFERS,
    }
