"""Which connections the proxy reports as accepted, and whom it takes for their client."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest

from harness.model.hosts import Link
from nodes.proxy import server
from nodes.proxy.channel import ChannelContext
from nodes.proxy.listeners import Dialers
from nodes.proxy.message_queue import Timers
from nodes.proxy.namespaces import Endpoint
from nodes.proxy.rpcs import PROBE_SECONDS
from nodes.proxy.rules import RuleBook
from nodes.proxy.server import Proxy

BUSY_SECONDS = 0.5
OWN_ADDRESS = "127.93.0.1"  # no other process takes a port of it between two connections of a test


class ForwardingListener:
    """A listener of node 2 that forwards every connection to an open port."""

    def __init__(self, target: socket.socket) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self._target = target

    async def listen(self) -> Sequence[socket.socket]:
        self.listening.setblocking(False)
        return [self.listening]

    def resolve(self, _accepted: socket.socket) -> tuple[Link, Endpoint]:
        return (1, 2), self._target.getsockname()

    async def outgoing(self, _link: Link) -> socket.socket:
        unconnected = socket.socket()
        unconnected.setblocking(False)
        return unconnected


def with_proxy(use: Callable[[Proxy, Endpoint], Awaitable[None]]) -> None:
    """Run a function with a proxy and the endpoint at which it listens."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        shared = ChannelContext(RuleBook(seed=1), Timers(loop.time, loop.call_at), time.monotonic_ns)
        with socket.create_server(("127.0.0.1", 0)) as target:
            listener = ForwardingListener(target)
            proxy = Proxy({2: listener}, shared)
            await proxy.listen()
            await use(proxy, listener.listening.getsockname())

    asyncio.run(main())


def test_probe_waits_until_a_busy_proxy_has_accepted_its_connection() -> None:
    async def use(proxy: Proxy, endpoint: Endpoint) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            peer = probe.getsockname()

            def connect_to_a_busy_proxy() -> None:
                probe.connect(endpoint)  # established by the kernel, while the event loop cannot accept it
                time.sleep(BUSY_SECONDS)

            accepted = asyncio.create_task(proxy.accepted_among([peer], PROBE_SECONDS))
            asyncio.get_running_loop().call_soon(connect_to_a_busy_proxy)
            assert await accepted == [peer]

    with_proxy(use)


def test_open_connection_stays_accepted_when_an_earlier_one_with_its_endpoint_is_forgotten() -> None:
    async def use(proxy: Proxy, endpoint: Endpoint) -> None:
        first = socket.create_connection(endpoint, source_address=(OWN_ADDRESS, 0))
        peer = first.getsockname()
        assert await proxy.accepted_among([peer], PROBE_SECONDS) == [peer]
        earlier = proxy._accepted[peer]
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, server._RESET_ON_CLOSE)
        first.close()
        with socket.create_connection(endpoint, source_address=peer):
            while proxy._accepted[peer] is earlier:
                await asyncio.sleep(0)
            proxy._forget(earlier, peer)
            assert await proxy.accepted_among([peer], PROBE_SECONDS) == [peer]

    with_proxy(use)


def test_claim_identifies_one_connection_only() -> None:
    peer = ("127.0.0.1", 1)
    dialers = Dialers(claims={peer: 3})
    assert dialers.node_at(peer) == 3
    with pytest.raises(KeyError):
        dialers.node_at(peer)
