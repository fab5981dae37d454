"""Finds the leader of a quorum by asking each node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from harness.model import PeerFailure
from harness.model.hosts import HostView
from harness.model.layouts import CONTROLLER_PORT
from nodes.observe.describe_quorum import describe_quorum
from nodes.wire.connection import WireConnection

LEADER_SECONDS = 20.0


async def leader_of(views: Mapping[int, HostView], excluded: int | None = None) -> int:
    """Wait until a node other than the excluded one answers as leader; returns that node."""
    candidates = {node: view for node, view in views.items() if node != excluded}
    connections = {node: WireConnection(view.address, CONTROLLER_PORT, "test") for node, view in candidates.items()}
    try:
        async with asyncio.timeout(LEADER_SECONDS):
            while True:
                for node, connection in connections.items():
                    if await _is_leader(connection):
                        return node
                await asyncio.sleep(0.05)
    finally:
        for connection in connections.values():
            await connection.close()


async def _is_leader(connection: WireConnection) -> bool:
    try:
        return (await describe_quorum(connection, 1000)).error is None
    except PeerFailure:
        return False
