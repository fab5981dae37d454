"""Where the nodes of the quorum listen: a mapping that changes while the node runs, and connections that follow it.

    addresses = Addresses({1: ("127.0.0.1", 9093)})
    connections = Connections(addresses, "raft-client-2")
    connections.to(1)                                    # a WireConnection; None for a node whose address is unknown
    addresses.learn(1, ("127.0.0.1", 9193))              # connections.to(1) is another one from now on

Contains bookkeeping. How addresses become known is decided by core.roles.discovering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodes.reference.brokers.properties import Endpoint
from nodes.wire.connection import WireConnection


class Addresses(Mapping[int, Endpoint]):
    """The known addresses by node."""

    def __init__(self, configured: Mapping[int, Endpoint]) -> None:
        self._known = dict(configured)

    def learn(self, node: int, address: Endpoint) -> None:
        """A node listens at this address now."""
        self._known[node] = address

    def __getitem__(self, node: int) -> Endpoint:
        return self._known[node]

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class Connections:
    """One connection to each node, made when it is first needed."""

    def __init__(self, addresses: Mapping[int, Endpoint], client_id: str) -> None:
        self._addresses, self._client_id = addresses, client_id
        self._open: dict[int, tuple[Endpoint, WireConnection]] = {}

    def to(self, node: int | None) -> WireConnection | None:
        """The connection to a node's current address; None if it is unknown."""
        address = None if node is None else self._addresses.get(node)
        if node is None or address is None:
            return None
        known = self._open.get(node)
        if known is None or known[0] != address:
            if known is not None:
                known[1].abort()
            self._open[node] = known = (address, WireConnection(*address, self._client_id))
        return known[1]

    async def close(self) -> None:
        """Close all connections."""
        for _, connection in self._open.values():
            await connection.close()
