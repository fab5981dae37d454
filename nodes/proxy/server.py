"""The proxy's shell: sockets at every node's listener around channels.

What may live here: accepting, connecting, carrying bytes. What may not: what becomes of a message; the channel says.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from harness.model import PeerFailure
from harness.model.faults.rpc import RpcRule, RuleCount
from harness.model.hosts import Link
from nodes.proxy.channel import Channel, Surroundings
from nodes.proxy.listeners import Listener
from nodes.proxy.namespaces import Endpoint

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_WRITE_BUFFER_BYTES = 1 << 20

MEMORY_SECONDS = 5.0
"""How long a client that came is remembered after it has gone: longer than a probe takes to ask for it."""


class _End(asyncio.Protocol):
    """One end of a connection; harmless to write to and to close before it is open and after it is closed."""

    def __init__(self, take: Callable[[bytes], None], left: Callable[[], None], connection: _Connection) -> None:
        self._take, self._left, self._connection = take, left, connection
        self._has_left = False
        self.other: _End | None = None
        self.transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        try:
            self._take(data)
        except PeerFailure:
            self._connection.abort()  # it does not speak Kafka's protocol, and no node would go on with it

    def eof_received(self) -> bool:
        self._leave()
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names the parameter
        self.resume_writing()
        self._leave()
        self._connection.end_lost()

    def pause_writing(self) -> None:
        if self.other and self.other.transport:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other and self.other.transport:
            self.other.transport.resume_reading()

    def write(self, frame: bytes) -> None:
        if self.is_open:
            assert self.transport is not None
            self.transport.write(frame)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def _leave(self) -> None:
        if not self._has_left:
            self._has_left = True
            self._left()


class _Connection:
    """A node's connection to another, from its acceptance until both ends are closed."""

    def __init__(self, proxy: Proxy, listener: Listener) -> None:
        self._proxy, self._place = proxy, listener
        self._connecting: asyncio.Task[None] | None = None
        self._channel: Channel | None = None
        self._early: bytearray | None = bytearray()  # what came before the server was reached; None since then
        self._client_endpoint: Endpoint = ("", 0)
        self.client = _Accepted(self)
        self.server = _End(lambda data: self.channel.from_server(data), lambda: self.channel.server_has_left(), self)
        self.client.other, self.server.other = self.server, self.client

    @property
    def channel(self) -> Channel:
        assert self._channel is not None, "bytes before the connection was accepted"
        return self._channel

    def accepted(self, accepted: socket.socket) -> None:
        """The client's end is open; see where it wants to go."""
        try:
            self._client_endpoint = accepted.getpeername()
            link, target = self._place.way(accepted)
        except (OSError, KeyError):
            self._reset_client()  # whoever it is came astray, or has left already
            return
        self._channel = Channel(link, self._proxy.shared, self.client, self.server, self.abort)
        self._proxy.began(self, self._client_endpoint)
        self._connecting = asyncio.create_task(self._connect(link, target))

    def from_client(self, data: bytes) -> None:
        """Bytes of the client's; before the server is reached they are not under way, and meet no rule."""
        if self._early is not None:
            self._early += data
        else:
            self.channel.from_client(data)

    def client_left(self) -> None:
        """The client has closed; one that was never connected further has sent nothing that could still arrive."""
        if self._channel is None:
            return
        if self._early is not None:
            self.abort()
        else:
            self._channel.client_has_left()

    def abort(self) -> None:
        """Close both ends at once."""
        if self._connecting is not None:
            self._connecting.cancel()
        for end in (self.client, self.server):
            if end.transport is not None:
                end.transport.abort()

    def end_lost(self) -> None:
        """One end is closed for good; with the other, the connection is over."""
        if not self.client.is_open and not self.server.is_open:
            self._proxy.ended(self, self._client_endpoint)

    async def _connect(self, link: Link, target: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        upstream = await self._place.outgoing(link)
        try:
            await loop.sock_connect(upstream, target)
            await loop.create_connection(lambda: self.server, sock=upstream)
        except OSError:
            upstream.close()
            self._reset_client()  # as near as we can come to a connection that is refused
            return
        except asyncio.CancelledError:
            upstream.close()
            raise
        early, self._early = bytes(self._early or b""), None
        self.client.data_received(early)

    def _reset_client(self) -> None:
        transport = self.client.transport
        assert transport is not None
        with suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        transport.abort()


class _Accepted(_End):
    """The client's end: its opening is what starts a connection."""

    def __init__(self, connection: _Connection) -> None:
        super().__init__(connection.from_client, connection.client_left, connection)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection.accepted(transport.get_extra_info("socket"))


class Proxy:
    """All connections of all nodes, under one book of rules."""

    def __init__(self, listeners: Mapping[int, Listener], shared: Surroundings) -> None:
        self.shared = shared
        self._connections: set[_Connection] = set()
        self._came: set[Endpoint] = set()  # the clients' ends of connections that are open, or were a moment ago
        self._another_came = asyncio.Event()
        self._places = listeners

    async def listen(self) -> Mapping[int, int]:
        """Accept at every listener; the first port of each, by node."""
        loop, ports = asyncio.get_running_loop(), {}
        for node, listener in self._places.items():
            listening = await listener.listen()
            ports[node] = int(listening[0].getsockname()[1])
            for each in listening:
                await loop.create_server(partial(self._accept, listener), sock=each)
        return ports

    def replace(self, rules: Sequence[RpcRule]) -> None:
        """Put these rules in place of all others. Raises BadInput for one that cannot be carried out."""
        kept = self.shared.book.replace(rules)
        for connection in list(self._connections):
            connection.channel.keep_only(kept)

    def counts(self) -> Mapping[str, RuleCount]:
        """The counters of the rules, by name."""
        holding: Counter[str] = Counter()
        for connection in self._connections:
            holding += connection.channel.holding()
        return self.shared.book.counts(holding)

    async def accepted_among(self, peers: Sequence[Endpoint], within_seconds: float) -> list[Endpoint]:
        """Those of these clients' endpoints that have come here; waits so long for the missing ones."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                while not self._came.issuperset(peers):
                    self._another_came.clear()
                    await self._another_came.wait()
        return [peer for peer in peers if peer in self._came]

    def began(self, connection: _Connection, client: Endpoint) -> None:
        """A connection has been accepted."""
        self._connections.add(connection)
        self._came.add(client)
        self._another_came.set()

    def ended(self, connection: _Connection, client: Endpoint) -> None:
        """A connection is over; that it was there is remembered for whoever asks just now."""
        self._connections.discard(connection)
        asyncio.get_running_loop().call_later(MEMORY_SECONDS, self._came.discard, client)

    def _accept(self, listener: Listener) -> _End:
        return _Connection(self, listener).client
