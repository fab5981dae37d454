"""What a system is to the harness: a recipe that prepares a node's directory and says which command serves it.

Both systems are node_configs (nodes/kafka, nodes/reference); who starts, kills and watches their processes is the same
code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.model.hosts import Host, HostView
from harness.model.quorum_states import TableName

CONTROLLER_PORT = 9093


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """How to serve a node: argv, what to add to the environment, and how long SIGTERM may take."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    grace_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """Where a node's log and durable state are, as paths that the controller can read."""

    log: Path
    quorum_state: Path

    @property
    def data(self) -> Path:
        """The log directory, with a folder for each partition."""
        return self.quorum_state.parent.parent


class System(Protocol):
    """A recipe, e.g. labelled `kafka:3.9.1` with the table `kip-595`."""

    @property
    def label(self) -> str:
        """What reports call it."""

    @property
    def table(self) -> TableName:
        """The name of the transition table its nodes follow."""

    async def configure(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        """Write one host's configuration, and nothing else. Raises EnvironmentFailure."""

    async def prepare(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool = False) -> None:
        """Write one host's configuration and format its storage; hosts are all of the quorum.

        In a quorum whose voters change, a newcomer is none of its first voters, whatever its number (KIP-853).
        Raises EnvironmentFailure with the tool's words.
        """

    @property
    def reads(self) -> Sequence[Path]:
        """Folders of the controller's that its nodes read, e.g. a release's jars; hosts have them by these paths."""

    def command(self, host: HostView) -> NodeCommand:
        """The command that serves this node."""

    def files(self, host: HostView) -> NodeFiles:
        """This node's log and quorum-state."""


class NodeConfigs(Protocol):
    """The nodes' systems as they are just now, each of which can be another while its node is down."""

    @property
    def changed(self) -> tuple[int, ...]:
        """The nodes whose system is not the one that the run began with."""

    async def change(self, node: int, switches: Mapping[str, str], system: str | None) -> str:
        """From its next start on, a node has these switches besides its own, or another release; what it is called.

        Raises BadInput for a switch or system that there is not, EnvironmentFailure for a configuration not written.
        """

    async def restore(self, node: int) -> None:
        """From its next start on, the node is as the run began with it; harmless where it is."""
