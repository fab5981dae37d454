"""What may befall the disks of nodes, and the capability of hosts to make it so.

A node's disk is the file system that its directory is on, or where it shares one with others, its directory alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

FileSystem = Literal["directory", "tmpfs", "ext4", "xfs"]
"""What a node's disk is: a directory on the controller's disk, a memory file system, or a loop device with one."""


class Disks(Protocol):
    """The nodes' disks. Every deed raises EnvironmentFailure where it cannot be done on this kind of disk."""

    def missing(self, deed: str) -> str | None:
        """Why a deed cannot be done on these disks, None where it can."""

    async def do(self, node: int, deed: str, details: Mapping[str, Any]) -> dict[str, Any]:
        """Do it to one node's disk; what was done, as JSON."""

    async def undo(self, node: int) -> None:
        """The disk works as it should again; what was lost stays lost. Harmless where nothing was done."""

    async def probe(self, node: int, deed: str) -> str | None:
        """Try the disk: None where the deed shows in what a process on the node sees, else what was seen instead."""
