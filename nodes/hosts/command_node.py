"""A node that is one command and its configuration files: all that many systems under test need.

CommandNode("etcd", argv=lambda view: ["etcd", "--config-file", str(view.directory / "etcd.yml")], files=…)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.model.hosts import Host, HostView
from harness.model.systems import NodeCommand, NodeFiles
from nodes.hosts.processes import LOG_NAME


@dataclass(frozen=True, slots=True)
class CommandNode:
    """harness.model.systems.NodeSystem.

    argv gives the command that serves a node; it logs to its standard output. configuration gives the text of each
    configuration file by its name in the node's directory, from the node's view and the views of all nodes. The node
    keeps its data in `data` in its directory.
    """

    label: str
    argv: Callable[[HostView], Sequence[str]]
    configuration: Callable[[HostView, Mapping[int, HostView]], Mapping[str, str]] = lambda _view, _views: {}
    reads: Sequence[Path] = ()

    async def configure(self, host: Host, hosts: Mapping[int, HostView]) -> None:
        """Write the configuration files."""
        for name, text in self.configuration(host.view, hosts).items():
            await host.write(host.view.directory / name, text)

    async def prepare(self, host: Host, hosts: Mapping[int, HostView], newcomer: bool = False) -> None:  # noqa: ARG002
        """Write the configuration files; the server creates its data itself."""
        await self.configure(host, hosts)

    def command(self, host: HostView) -> NodeCommand:
        """The command that serves the node."""
        return NodeCommand(self.argv(host))

    def files(self, host: HostView) -> NodeFiles:
        """The node's log and data."""
        return NodeFiles(host.readable / LOG_NAME, host.readable / "data")
