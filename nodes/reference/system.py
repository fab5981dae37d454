"""What a node of the reference quorum runs: writes its configuration and returns the command that serves it.

system = ReferenceSystem({"reference.pre_vote": "false"}, cluster_id, seed=7)
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.model import BadInput
from harness.model.hosts import Host, HostView
from harness.model.layouts import CLIENT_PORT, CONTROLLER_PORT, REPLICATION_PORT, Roles
from harness.model.systems import (
    BOOTSTRAP_NODES,
    CLUSTER_ID,
    CONTROLLER_PORT_PROPERTY,
    FORMAT,
    NodeCommand,
    NodeFiles,
)
from nodes.reference.brokers.properties import ROLES
from nodes.reference.properties import (
    BOOTSTRAP_SERVERS,
    CONTROLLER,
    DEFAULT_CLUSTER_ID,
    INITIAL_CONTROLLERS,
    OWN_PROPERTIES,
    parse,
    refuse_unused,
)

SWITCHES = Path("--switch")
"""What messages name in place of a properties file."""

STANDALONE = "standalone"
"""How a node is formatted that founds a quorum of its own."""


@dataclass(frozen=True, slots=True)
class ReferenceSystem:
    """harness.model.systems.NodeSystem of reference nodes. switches are properties that differ from their defaults.

    voters are the nodes that vote in the quorum, all of them if it is None; the others are observers. directories are
    the ids of the controllers' directories, where voters change one at a time (KIP-853).
    """

    switches: Mapping[str, str]
    cluster_id: str
    seed: int
    voters: Sequence[int] | None = None
    roles: Roles = Roles.CONTROLLER
    directories: Mapping[int, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """E.g. 'reference (pre_vote=false)'."""
        shown = ", ".join(f"{name.removeprefix('reference.')}={value}" for name, value in sorted(self.switches.items()))
        return f"reference ({shown})" if shown else "reference"

    async def prepare(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool = False) -> None:
        """Write the node's properties. A node creates its log directory itself; a newcomer's has an id of its own."""
        await self._configure(host, hosts, newcomer)

    async def configure(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        """Write the node's properties."""
        await self._configure(host, hosts, newcomer=False)

    async def _configure(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool) -> None:
        members = sorted(hosts) if self.voters is None else self.voters
        voters = ",".join(f"{node}@{hosts[node].address}:{CONTROLLER_PORT}" for node in members)
        given = {**_of_broker(len(hosts)), **self.switches} if self.roles.are_broker else self.switches
        if self.switches.get("reference.voter_changes", "none") != "none":
            named = bootstrap_nodes(self.switches, hosts)
            contacts = ",".join(f"{hosts[node].address}:{CONTROLLER_PORT}" for node in named)
            given = {BOOTSTRAP_SERVERS: contacts, **given}
        founders = [host.view.node] if self.switches.get(FORMAT) == STANDALONE else members
        if self._has_directories and host.view.node in founders and not newcomer:
            given = {INITIAL_CONTROLLERS: self._initial_controllers(founders, hosts), **given}
        text = _server_properties(host.view, self.roles, voters, self.cluster_id, self.seed, given)
        await host.write(_properties(host.view), text)

    @property
    def _has_directories(self) -> bool:
        return self.switches.get("reference.voter_changes") == "kip-853"

    def _initial_controllers(self, members: Sequence[int], hosts: Mapping[int, HostView]) -> str:
        """The first voters, as the storage tool of Kafka formats a node for them."""
        addresses = {node: f"{hosts[node].address}:{CONTROLLER_PORT}" for node in members}
        return ",".join(f"{node}@{address}:{self.directories[node]}" for node, address in addresses.items())

    @property
    def reads(self) -> Sequence[Path]:
        """Nothing besides this package and its interpreter."""
        return ()

    def command(self, host: HostView) -> NodeCommand:
        """A Python process that logs to its standard output."""
        return NodeCommand([sys.executable, "-P", "-m", "nodes.reference", str(_properties(host))])

    def files(self, host: HostView) -> NodeFiles:
        """This node's log and quorum-state."""
        data = host.readable / "data"
        return NodeFiles(host.readable / "server.log", data, data / "__cluster_metadata-0" / "quorum-state")


def controller_port(switches: Mapping[str, str]) -> int:
    """The port of a node's controller listener. Raises BadInput."""
    given = switches.get(CONTROLLER_PORT_PROPERTY, str(CONTROLLER_PORT))
    if not given.isdecimal() or not 1024 <= int(given) <= 65_535:
        raise BadInput(f"{CONTROLLER_PORT_PROPERTY}={given}: expected a port, 1024 to 65535")
    return int(given)


def bootstrap_nodes(switches: Mapping[str, str], nodes: Collection[int]) -> list[int]:
    """The nodes at which a node begins to look for the others: all, unless BOOTSTRAP_NODES names some."""
    given = switches.get(BOOTSTRAP_NODES)
    named = given.split(",") if given is not None else map(str, sorted(nodes))
    known = {str(node): node for node in sorted(nodes)}
    try:
        return [known[node] for node in named]
    except KeyError:
        raise BadInput(f"{BOOTSTRAP_NODES}={given}: expected numbers of nodes, among {','.join(known)}") from None


def check_switches(switches: Mapping[str, str]) -> None:
    """Raise BadInput for an unknown switch, one that changes nothing, or an invalid value."""
    refuse_unused(SWITCHES, switches)
    if switches.get(FORMAT, STANDALONE) != STANDALONE:
        raise BadInput(f"{FORMAT}={switches[FORMAT]}: expected {STANDALONE}")
    host = HostView(1, "127.0.0.1", "n1", Path("n1"))
    voters = f"1@127.0.0.1:{CONTROLLER_PORT}"
    parse(SWITCHES, _server_properties(host, Roles.COMBINED, voters, DEFAULT_CLUSTER_ID, 0, switches))


def _server_properties(
    host: HostView, roles: Roles, voters: str, cluster_id: str, seed: int, switches: Mapping[str, str]
) -> str:
    properties = {
        "node.id": str(host.node),
        "cluster.id": switches.get(CLUSTER_ID, cluster_id),
        "controller.quorum.voters": voters,
        "listeners": _listeners(roles, host.bound, controller_port(switches)),
        "advertised.listeners": _listeners(roles, host.address, controller_port(switches)),
        "log.dirs": str(host.directory / "data"),
        "reference.seed": str(seed + host.node),
        **{name: value for name, value in switches.items() if name not in OWN_PROPERTIES},
        ROLES: roles.value,
    }
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def _listeners(roles: Roles, address: str, controller: int) -> str:
    ports = {"PLAINTEXT": CLIENT_PORT, "REPLICATION": REPLICATION_PORT} if roles.are_broker else {}
    if roles.are_controller:
        ports[CONTROLLER] = controller
    return ",".join(f"{name}://{address}:{port}" for name, port in ports.items())


def _of_broker(nodes: int) -> dict[str, str]:
    """The properties that clusters with brokers have unless the plan says otherwise, as with real Kafka."""
    replicas = str(min(3, nodes))
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": str(min(2, nodes)),
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "5",
        "group.initial.rebalance.delay.ms": "0",
    }


def _properties(host: HostView) -> Path:
    return host.directory / "server.properties"
