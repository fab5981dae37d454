"""The proxy in front of local hosts: which connections it accepts, and what happens when its process is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from harness.model import BadInput, EnvironmentFailure
from harness.model.faults.rpc import DROP, Api, RpcMatch, RpcRule, RuleCount, delay
from nodes.hosts.local import LocalHosts
from nodes.proxy.proxy_links import ProxyLinks

BUSY_SECONDS = 0.1
NO_VOTES = RpcRule("no votes", RpcMatch((Api.VOTE,), sources=(1,)), DROP)


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


async def kill_proxy(links: ProxyLinks) -> int:
    """Kill the proxy's process and wait for its end; returns its pid."""
    proxy = links._proxy
    assert proxy is not None
    proxy.process.kill()
    await proxy.process.wait()
    return proxy.process.pid


@pytest.mark.parametrize(
    "act",
    [
        lambda links: links.cut([(2, 1)]),
        lambda links: links.heal([(1, 2)]),
        lambda links: links.passes([(1, 2)]),
        lambda links: links.rpcs.replace([NO_VOTES]),
        lambda links: links.rpcs.counts(),
        lambda links: links.rpcs.routes([(1, 2)]),
    ],
    ids=["cut", "heal one link", "probe", "replace", "count", "route"],
)
def test_action_without_a_proxy_fails_and_names_its_process_and_end(
    tmp_path: Path, act: Callable[[ProxyLinks], Awaitable[object]]
) -> None:
    async def use(links: ProxyLinks) -> None:
        await links.cut([(1, 2)])
        pid = await kill_proxy(links)
        with pytest.raises(
            EnvironmentFailure, match=rf"process {pid} to respond, but it has ended \(SIGKILL\); its rules"
        ):
            await act(links)

    with_links(tmp_path, use)


@pytest.mark.parametrize("heal", [ProxyLinks.heal, ProxyLinks.clear], ids=["heal all links", "remove all rules"])
def test_healing_without_a_proxy_starts_one_and_fails_once(
    tmp_path: Path, heal: Callable[[ProxyLinks], Awaitable[None]]
) -> None:
    async def use(links: ProxyLinks) -> None:
        await links.cut([(1, 2)])
        await links.rpcs.replace([NO_VOTES])
        await kill_proxy(links)
        with pytest.raises(EnvironmentFailure, match="a new proxy runs, without rules and cuts"):
            await heal(links)
        await heal(links)
        assert await links.passes([(1, 2), (2, 1)]) == {(1, 2): True, (2, 1): True}
        assert await links.rpcs.counts() == {}

    with_links(tmp_path, use)


def test_rules_that_the_proxy_refuses_leave_cuts_possible(tmp_path: Path) -> None:
    async def use(links: ProxyLinks) -> None:
        with pytest.raises(BadInput, match="expected unique names"):
            await links.rpcs.replace([NO_VOTES, NO_VOTES])
        await links.cut([(1, 2)])
        assert await links.passes([(1, 2), (2, 1)]) == {(1, 2): False, (2, 1): True}

    with_links(tmp_path, use)


def test_replacement_returns_the_final_counters_of_the_rules_before_without_those_of_cuts(tmp_path: Path) -> None:
    async def use(links: ProxyLinks) -> None:
        slow = RpcRule("slow", RpcMatch((Api.API_VERSIONS,), sources=(1,), limit=1), delay(1))
        await links.cut([(2, 1)])
        assert await links.rpcs.replace([slow, NO_VOTES]) == {}
        assert await links.passes([(1, 2)]) == {(1, 2): True}
        counts = await links.rpcs.counts()
        assert counts["slow"].acted == 1
        assert await links.rpcs.replace([NO_VOTES]) == counts
        assert await links.rpcs.clear() == {"no votes": RuleCount()}
        assert await links.rpcs.counts() == {}

    with_links(tmp_path, use)
