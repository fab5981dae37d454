"""What the kinds of host have in common.

Contains Protocols, and the Host whose files have the same paths for the controller and the node. Each kind of host is
created in a module of its own.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.model import EnvironmentFailure
from harness.model.hosts import HostView
from nodes.hosts.commands import run


class EnterableHosts(Protocol):
    """Hosts on which a child of the controller can run."""

    @property
    def views(self) -> Mapping[int, HostView]:
        """The hosts' addresses and directories, by node."""

    def enter(self, node: int, argv: Sequence[str]) -> list[str]:
        """The command that runs argv on the node; its pid is argv's."""


class NamespacedHosts(EnterableHosts, Protocol):
    """Hosts with a network namespace each, which the controller can enter."""

    @property
    def controller_address(self) -> str:
        """The controller's own address on the nodes' network."""

    def network_namespace(self, node: int) -> Path:
        """The path of the node's network namespace, for setns."""


@dataclass(frozen=True, slots=True)
class SameMachineHost:
    """harness.model.hosts.Host whose files have the same paths for the controller and the node."""

    view: HostView

    async def write(self, path: Path, text: str) -> None:
        """Write a small file and create its missing parent folders."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except OSError as error:
            raise EnvironmentFailure(f"writing {path}: {error.strerror}") from error

    async def run(self, argv: Sequence[str], timeout_seconds: float = 60.0) -> str:
        """Run a short command beside the node's server; its standard output."""
        return await run(argv, timeout_seconds=timeout_seconds)

    async def put(self, source: Path, target: Path) -> None:
        """Copy a file or a folder."""
        await asyncio.to_thread(_copy, source, target)

    async def get(self, source: Path, target: Path) -> None:
        """Copy a file or a folder."""
        await asyncio.to_thread(_copy, source, target)


def _copy(source: Path, target: Path) -> None:
    try:
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    except OSError as error:
        raise EnvironmentFailure(f"copying {source} to {target}: {error.strerror or error}") from error
