"""Requests to the other nodes of the quorum: one connection per peer, one pending request per connection.

Sends requests and reports their outcome to the core, which decides when to send and to retry. Discovery's requests go
to addresses, whose node may be unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from harness.model import PeerFailure
from nodes.reference.addresses import Addresses, Connections
from nodes.reference.core.events import Answered, Contact, Discover, Discovered, Event, Failed, Send
from nodes.reference.core.messages import UpdateVoterRequest, VoteRequest
from nodes.reference.translate import discover_request, discover_response, peer_request, peer_response
from nodes.reference.voter_apis import update_response, update_values
from nodes.wire import codec
from nodes.wire.connection import WireConnection

_FIRST_VOTE_WITH_PRE_VOTE = 2


class Peers:
    """The connections to the peers; outcomes are passed to deliver."""

    def __init__(self, node_id: int, addresses: Addresses, timeout_ms: int, deliver: Callable[[Event], None]) -> None:
        self._addresses, self._timeout_ms, self._deliver = addresses, timeout_ms, deliver
        self._client_id = f"raft-client-{node_id}"
        self._connections = Connections(addresses, self._client_id)
        self._contacts: dict[Contact, WireConnection] = {}
        self._pending: dict[int, asyncio.Task[None]] = {}
        self._discovering: asyncio.Task[None] | None = None

    def send(self, effect: Send) -> None:
        """Send a request; a pending request to the same peer is abandoned, and its connection closed.

        Closing the connection lets the receiver know that a response on it is not received.
        """
        previous = self._pending.pop(effect.peer, None)
        if previous is not None:
            previous.cancel()
        if previous is not None or effect.is_after_abandoned:
            connection = self._connections.to(effect.peer)
            if connection is not None:
                connection.abort()
        self._pending[effect.peer] = asyncio.create_task(self._exchange(effect))

    def discover(self, effect: Discover) -> None:
        """Send a request to an address; there is one at a time."""
        self._discovering = asyncio.create_task(self._discover(effect))

    async def close(self) -> None:
        """Abandon all requests and close all connections."""
        for task in (*self._pending.values(), *filter(None, [self._discovering])):
            task.cancel()
        await self._connections.close()
        for connection in self._contacts.values():
            await connection.close()

    async def _discover(self, effect: Discover) -> None:
        connection = self._contacts.get(effect.contact)
        if connection is None:
            connection = self._contacts[effect.contact] = WireConnection(*effect.contact, self._client_id)
        try:
            values = discover_request(effect.request)
            response = await connection.call_latest(codec.DISCOVER_BROKERS, values, self._timeout_ms)
        except PeerFailure:
            self._deliver(Discovered(None))
        else:
            self._deliver(Discovered(discover_response(response)))

    async def _exchange(self, effect: Send) -> None:
        outcome = await self._outcome(effect)
        del self._pending[effect.peer]  # before the core gets the outcome, since it may send at once
        self._deliver(outcome)

    async def _outcome(self, effect: Send) -> Event:
        connection = self._connections.to(effect.peer)
        if connection is None:  # discovery has not found the node yet
            return Failed(effect.peer, effect.request_id)
        request = effect.request
        if isinstance(request, UpdateVoterRequest):
            api_key, values = codec.UPDATE_RAFT_VOTER, update_values(request)
        else:
            api_key, values = peer_request(request, self._addresses)
        try:
            if isinstance(request, VoteRequest) and request.pre_vote:
                newest = await connection.newest_version(api_key, self._timeout_ms)
                if newest < _FIRST_VOTE_WITH_PRE_VOTE:
                    return Failed(effect.peer, effect.request_id, unsupported_version=True)
            response = await connection.call_latest(api_key, values, self._timeout_ms)
        except PeerFailure:
            return Failed(effect.peer, effect.request_id)
        is_update = isinstance(request, UpdateVoterRequest)
        answer = update_response(response) if is_update else peer_response(response)
        return Answered(effect.peer, effect.request_id, answer)
