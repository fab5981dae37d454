"""The proxy's I/O shell: connects the sockets of each connection to its channel.

Contains accepting, connecting and transferring bytes. The channel decides what happens to a message.
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
from nodes.proxy.channel import Channel, ChannelContext
from nodes.proxy.listeners import Listener
from nodes.proxy.namespaces import Endpoint

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_WRITE_BUFFER_BYTES = 1 << 20

MEMORY_SECONDS = 30.0
"""How long the endpoint of a closed connection is remembered. A probe closes its connection at once; whether the proxy
accepted it is asked after the last probe has connected or failed (nodes.proxy.rpcs.PROBE_SECONDS)."""


class _End(asyncio.Protocol):
    """One end of a connection. Writing and closing do nothing before it is open and after it is closed."""

    def __init__(self, on_data: Callable[[bytes], None], on_close: Callable[[], None], connection: _Connection) -> None:
        self._on_data, self._on_close, self._connection = on_data, on_close, connection
        self._is_closed = False
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
            self._on_data(data)
        except PeerFailure:
            self._connection.abort()  # the data is not Kafka's protocol; a node would close the connection too

    def eof_received(self) -> bool:
        self._report_close()
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names the parameter
        self.resume_writing()
        self._report_close()
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

    def _report_close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._on_close()


class _Connection:
    """A connection between two nodes, from its acceptance until both ends are closed."""

    def __init__(self, proxy: Proxy, listener: Listener) -> None:
        self._proxy, self._listener = proxy, listener
        self._connecting: asyncio.Task[None] | None = None
        self._channel: Channel | None = None
        self._early: bytearray | None = bytearray()  # data from before the server was connected; None afterwards
        self._client_endpoint: Endpoint = ("", 0)
        self.client = _ClientEnd(self)
        self.server = _End(lambda data: self.channel.from_server(data), lambda: self.channel.server_closed(), self)
        self.client.other, self.server.other = self.server, self.client

    @property
    def channel(self) -> Channel:
        assert self._channel is not None, "bytes before the connection was accepted"
        return self._channel

    def accepted(self, accepted: socket.socket) -> None:
        """The client's end is open: find its destination and connect to it."""
        try:
            self._client_endpoint = accepted.getpeername()
            link, target = self._listener.resolve(accepted)
        except (OSError, KeyError):
            self._reset_client()  # its client or destination is unknown, or it has already closed
            return
        self._channel = Channel(link, self._proxy.shared, self.client, self.server, self.abort)
        self._proxy.connection_opened(self, self._client_endpoint)
        self._connecting = asyncio.create_task(self._connect(link, target))

    def from_client(self, data: bytes) -> None:
        """Bytes from the client; before the server is connected they are kept back and no rule applies."""
        if self._early is not None:
            self._early += data
        else:
            self.channel.from_client(data)

    def client_closed(self) -> None:
        """The client has closed; if the server was never connected, nothing can be delivered."""
        if self._channel is None:
            return
        if self._early is not None:
            self.abort()
        else:
            self._channel.client_closed()

    def abort(self) -> None:
        """Close both ends immediately."""
        if self._connecting is not None:
            self._connecting.cancel()
        for end in (self.client, self.server):
            if end.transport is not None:
                end.transport.abort()

    def end_lost(self) -> None:
        """One end is closed; the connection is closed if both are."""
        if not self.client.is_open and not self.server.is_open:
            self._proxy.connection_closed(self, self._client_endpoint)

    async def _connect(self, link: Link, target: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        upstream = await self._listener.outgoing(link)
        try:
            await loop.sock_connect(upstream, target)
            await loop.create_connection(lambda: self.server, sock=upstream)
        except OSError:
            upstream.close()
            self._reset_client()  # the closest equivalent of a refused connection
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


class _ClientEnd(_End):
    """The client's end; the connection starts when it opens."""

    def __init__(self, connection: _Connection) -> None:
        super().__init__(connection.from_client, connection.client_closed, connection)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection.accepted(transport.get_extra_info("socket"))


class Proxy:
    """The connections of all nodes, under one rule book."""

    def __init__(self, listeners: Mapping[int, Listener], shared: ChannelContext) -> None:
        self.shared = shared
        self._connections: set[_Connection] = set()
        self._accepted: dict[Endpoint, _Connection] = {}  # open and recently closed, by the client's endpoint
        self._another_accepted = asyncio.Event()
        self._listeners = listeners

    async def listen(self) -> Mapping[int, int]:
        """Accept connections at every listener; returns the first port of each, by node."""
        loop, ports = asyncio.get_running_loop(), {}
        for node, listener in self._listeners.items():
            sockets = await listener.listen()
            ports[node] = int(sockets[0].getsockname()[1])
            for listening in sockets:
                await loop.create_server(partial(self._accept, listener), sock=listening)
        return ports

    def replace(self, rules: Sequence[RpcRule]) -> Mapping[str, RuleCount]:
        """Replace all rules; returns the final counters of the rules before, by name. Raises BadInput.

        No message can pass in between: no rule acts after its counter is read.
        """
        final = self.counts()
        kept = self.shared.book.replace(rules)
        for connection in list(self._connections):
            connection.channel.keep_only(kept)
        return final

    def counts(self) -> Mapping[str, RuleCount]:
        """The counters of the rules, by name."""
        holding: Counter[str] = Counter()
        for connection in self._connections:
            holding += connection.channel.holding()
        return self.shared.book.counts(holding)

    async def accepted_among(self, peers: Sequence[Endpoint], within_seconds: float) -> list[Endpoint]:
        """Those of these clients' endpoints whose connections were accepted; waits up to within_seconds for all."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                while not self._accepted.keys() >= set(peers):
                    self._another_accepted.clear()
                    await self._another_accepted.wait()
        return [peer for peer in peers if peer in self._accepted]

    def connection_opened(self, connection: _Connection, client: Endpoint) -> None:
        """A connection was accepted."""
        self._connections.add(connection)
        self._accepted[client] = connection
        self._another_accepted.set()

    def connection_closed(self, connection: _Connection, client: Endpoint) -> None:
        """A connection is closed; its endpoint is remembered for MEMORY_SECONDS."""
        self._connections.discard(connection)
        asyncio.get_running_loop().call_later(MEMORY_SECONDS, self._forget, connection, client)

    def _forget(self, connection: _Connection, client: Endpoint) -> None:
        if self._accepted.get(client) is connection:  # a later connection may have the same endpoint
            del self._accepted[client]

    def _accept(self, listener: Listener) -> _End:
        return _Connection(self, listener).client
