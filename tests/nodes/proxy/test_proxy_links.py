"""The proxy in front of local hosts: which connections it accepts, and what happens when its process is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from nodes.hosts.local import LocalHosts
from nodes.proxy.proxy_links import ProxyLinks

BUSY_SECONDS = 0.1


def with_links(directory: Path, use: Callable[[ProxyLinks], Awaitable[None]]) -> None:
    """Run a function with the links of two local hosts, on which no server runs."""

    async def main() -> None:
        async with LocalHosts.up(directory, 2) as hosts, ProxyLinks.up(hosts.views) as links:
            await use(links)

    asyncio.run(main())


async def stay_busy() -> None:
    """Block every turn of the event loop, as a busy machine does."""
    while True:
        time.sleep(BUSY_SECONDS)
        await asyncio.sleep(0)


def test_connection_that_the_proxy_resets_before_the_controller_sees_it_is_proxied(tmp_path: Path) -> None:
    async def use(links: ProxyLinks) -> None:
        busy = asyncio.create_task(stay_busy())
        routes = await links.rpcs.routes([(1, 2), (2, 1)])
        busy.cancel()
        assert routes == {(1, 2): "proxied", (2, 1): "proxied"}

    with_links(tmp_path, use)
