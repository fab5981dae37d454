"""Requests to the other voters: one connection per peer, one pending request per connection.

Sends requests and reports their outcome to the core, which decides when to send and to retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from harness.model import PeerFailure
from nodes.reference.core.events import Answered, Event, Failed, Send
from nodes.reference.core.messages import VoteRequest
from nodes.reference.translate import Endpoints, peer_request, peer_response
from nodes.wire.connection import WireConnection

_FIRST_VOTE_WITH_PRE_VOTE = 2


class Peers:
    """The connections to the peers; outcomes are passed to deliver."""

    def __init__(self, node_id: int, endpoints: Endpoints, timeout_ms: int, deliver: Callable[[Event], None]) -> None:
        self._endpoints, self._timeout_ms, self._deliver = endpoints, timeout_ms, deliver
        client_id = f"raft-client-{node_id}"
        self._connections = {peer: WireConnection(*endpoints[peer], client_id) for peer in endpoints if peer != node_id}
        self._pending: dict[int, asyncio.Task[None]] = {}

    def send(self, effect: Send) -> None:
        """Send a request; a pending request to the same peer is abandoned, and its connection closed.

        Closing the connection lets the receiver know that a response on it is not received.
        """
        previous = self._pending.pop(effect.peer, None)
        if previous is not None:
            previous.cancel()
            self._connections[effect.peer].abort()
        self._pending[effect.peer] = asyncio.create_task(self._exchange(effect))

    async def close(self) -> None:
        """Abandon all requests and close all connections."""
        for task in self._pending.values():
            task.cancel()
        for connection in self._connections.values():
            await connection.close()

    async def _exchange(self, effect: Send) -> None:
        outcome = await self._outcome(effect)
        del self._pending[effect.peer]  # before the core gets the outcome, since it may send at once
        self._deliver(outcome)

    async def _outcome(self, effect: Send) -> Event:
        connection = self._connections[effect.peer]
        request = effect.request
        api_key, values = peer_request(request, self._endpoints)
        try:
            if isinstance(request, VoteRequest) and request.pre_vote:
                newest = await connection.newest_version(api_key, self._timeout_ms)
                if newest < _FIRST_VOTE_WITH_PRE_VOTE:
                    return Failed(effect.peer, effect.request_id, unsupported_version=True)
            response = await connection.call_latest(api_key, values, self._timeout_ms)
        except PeerFailure:
            return Failed(effect.peer, effect.request_id)
        return Answered(effect.peer, effect.request_id, peer_response(response))
