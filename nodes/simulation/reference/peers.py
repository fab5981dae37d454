"""Requests between simulated nodes: one connection to each peer, one pending request on it.

Contains what nodes.reference.peers does on sockets. Does not contain when nodes send (the core), or how long a message
takes (nodes.simulation.network). A request whose message is lost has no end here: the core gives it up in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model.faults.rpc import Api
from nodes.reference.core import events
from nodes.reference.core.messages import (
    NO_NODE,
    BeginQuorumEpochRequest,
    DiscoverRequest,
    DiscoverResponse,
    EndQuorumEpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    NominateRequest,
    Response,
    SnapshotId,
    VoteRequest,
    VoteResponse,
)
from nodes.simulation.network import Message, Network
from nodes.simulation.reference.member import Member, Pending
from nodes.simulation.timeline import Action, Timeline

Arrive = Callable[[Member, events.Event], None]
"""Passes an event to a node, at once or when it is no longer paused."""

APIS: Mapping[type, tuple[int, Callable[[ErrorCode], Response]]] = {
    VoteRequest: (Api.VOTE, lambda error: VoteResponse(error, NO_NODE, 0, granted=False)),
    BeginQuorumEpochRequest: (Api.BEGIN_QUORUM_EPOCH, lambda error: EpochResponse(error, NO_NODE, 0)),
    EndQuorumEpochRequest: (Api.END_QUORUM_EPOCH, lambda error: EpochResponse(error, NO_NODE, 0)),
    NominateRequest: (Api.NOMINATE_VOTER, lambda error: EpochResponse(error, NO_NODE, 0)),
    FetchRequest: (Api.FETCH, lambda error: FetchResponse(error, NO_NODE, 0)),
    FetchSnapshotRequest: (
        Api.FETCH_SNAPSHOT,
        lambda error: FetchSnapshotResponse(error, NO_NODE, 0, SnapshotId(0, 0)),
    ),
    DiscoverRequest: (Api.DISCOVER_BROKERS, lambda error: DiscoverResponse(error, (), NO_NODE, 0)),
}
"""The API key of each request between nodes, and its response with an error."""


class Peers:
    """The connections between all nodes of a cluster."""

    def __init__(
        self, timeline: Timeline, network: Network, members: Mapping[int, Member], arrive: Arrive, ids: Iterator[int]
    ) -> None:
        """ids are those of the requests that nodes serve, of clients too."""
        self._timeline, self._network, self._members, self._arrive = timeline, network, members, arrive
        self._ids = ids

    def send(self, member: Member, effect: events.Send) -> None:
        """A request to a peer. One that is pending is abandoned with its connection."""
        peer, request = effect.peer, effect.request
        if peer in member.pending or effect.is_after_abandoned or peer not in member.connections:
            member.connections[peer] = next(self._ids)
        pending = member.pending[peer] = Pending(effect.request_id)
        server = self._members[peer]
        complete = self._completion(member, peer, pending)
        if is_pre_vote(request) and not server.config.settings.pre_vote:  # as its ApiVersions says
            unsupported = events.Failed(peer, effect.request_id, unsupported_version=True)
            self._timeline.after(1, lambda: complete(unsupported))  # the node is still handling another event
            return
        self._exchange(
            member,
            server,
            request,
            answered=lambda response: complete(events.Answered(peer, effect.request_id, response)),
            failed=lambda: self._later(member, server, lambda: complete(events.Failed(peer, effect.request_id))),
        )

    def discover(self, member: Member, effect: events.Discover) -> None:
        """A request to an address, whose node may be unknown: that of n2 is node 2, whatever the port."""
        pending = Pending(0)
        server = next((each for each in self._members.values() if effect.contact[0] == f"n{each.node_id}"), None)
        member.pending[DISCOVERY] = pending
        complete = self._completion(member, DISCOVERY, pending)
        self._timeline.after(member.config.settings.request_timeout_ms, lambda: complete(events.Discovered(None)))
        if server is not None:
            self._exchange(
                member,
                server,
                effect.request,
                answered=lambda response: complete(events.Discovered(response)),
                failed=lambda: self._later(member, server, lambda: complete(events.Discovered(None))),
            )

    def _completion(self, member: Member, peer: int, pending: Pending) -> Callable[[events.Event], None]:
        """What ends a request, unless it was abandoned or its node has ended."""
        incarnation = member.incarnation

        def complete(event: events.Event) -> None:
            if member.incarnation == incarnation and member.pending.get(peer) is pending:
                del member.pending[peer]
                self._arrive(member, event)

        return complete

    def _later(self, client: Member, server: Member, action: Action) -> None:
        """What the client learns from the server's side, after a delay, if the link there is not cut."""

        def arrive() -> None:
            if self._network.passes((server.node_id, client.node_id)):
                action()

        self._timeline.after(self._network.delay(), arrive)

    def _exchange(
        self, client: Member, server: Member, request: Any, answered: Callable[[Any], None], failed: Action
    ) -> None:
        api_key, error_response = APIS[type(request)]
        link, pre_vote = (client.node_id, server.node_id), getattr(request, "pre_vote", None)
        connection = client.connections.get(server.node_id, 0)

        def respond(response: Any) -> None:
            if response is None:  # the server has ended
                failed()
                return
            deliver = lambda: answered(response)  # noqa: E731
            self._network.send(Message(api_key, link, "response", deliver, failed, pre_vote=pre_vote))

        def arrive() -> None:
            if server.core is None:  # the connection is refused
                failed()
                return
            served_id = next(self._ids)
            server.served[served_id] = respond
            self._arrive(server, events.Arrived(connection, served_id, request))

        def answer(error_code: int) -> None:
            answered(error_response(ErrorCode(error_code)))

        self._network.send(Message(api_key, link, "request", arrive, failed, answer, pre_vote))


DISCOVERY = -1
"""The peer under which a node's only request for discovery is pending."""


def is_pre_vote(request: Any) -> bool:
    """Whether a request asks for a pre-vote, which a node before KIP-996 does not support."""
    return isinstance(request, VoteRequest) and request.pre_vote
