"""What a node of the reference quorum runs: writes its configuration and returns the command that serves it.

system = ReferenceSystem({"reference.pre_vote": "false"}, cluster_id, seed=7)
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.model.hosts import Host, HostView
from harness.model.systems import CLUSTER_ID, CONTROLLER_PORT, NodeCommand, NodeFiles
from nodes.reference.properties import DEFAULT_CLUSTER_ID, parse, refuse_unused

SWITCHES = Path("--switch")
"""What messages name in place of a properties file."""


@dataclass(frozen=True, slots=True)
class ReferenceSystem:
    """harness.model.systems.NodeSystem of reference nodes. switches are properties that differ from their defaults.

    voters is the number of voters, of the first nodes; the others are observers. All nodes are voters if it is None.
    """

    switches: Mapping[str, str]
    cluster_id: str
    seed: int
    voters: int | None = None

    @property
    def label(self) -> str:
        """E.g. 'reference (pre_vote=false)'."""
        shown = ", ".join(f"{name.removeprefix('reference.')}={value}" for name, value in sorted(self.switches.items()))
        return f"reference ({shown})" if shown else "reference"

    async def prepare(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool = False) -> None:  # noqa: ARG002
        """Write the node's properties. A node creates its log directory itself."""
        await self.configure(host, hosts)

    async def configure(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        """Write the node's properties."""
        voters = ",".join(f"{node}@{hosts[node].address}:{CONTROLLER_PORT}" for node in sorted(hosts)[: self.voters])
        text = _server_properties(host.view, voters, self.cluster_id, self.seed, self.switches)
        await host.write(_properties(host.view), text)

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


def check_switches(switches: Mapping[str, str]) -> None:
    """Raise BadInput for an unknown switch, one that changes nothing, or an invalid value."""
    refuse_unused(SWITCHES, switches)
    host = HostView(1, "127.0.0.1", "n1", Path("n1"))
    voters = f"1@127.0.0.1:{CONTROLLER_PORT}"
    parse(SWITCHES, _server_properties(host, voters, DEFAULT_CLUSTER_ID, 0, switches))


def _server_properties(host: HostView, voters: str, cluster_id: str, seed: int, switches: Mapping[str, str]) -> str:
    properties = {
        "process.roles": "controller",
        "node.id": str(host.node),
        "cluster.id": switches.get(CLUSTER_ID, cluster_id),
        "controller.quorum.voters": voters,
        "listeners": f"CONTROLLER://{host.bound}:{CONTROLLER_PORT}",
        "log.dirs": str(host.directory / "data"),
        "reference.seed": str(seed + host.node),
        **{name: value for name, value in switches.items() if name != CLUSTER_ID},
    }
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def _properties(host: HostView) -> Path:
    return host.directory / "server.properties"
