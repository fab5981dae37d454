"""Which way a link takes, from attempts to connect on it: with the redirect to the proxy, and without."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from harness.model.faults.rpc import Route
from harness.model.hosts import Link
from nodes.proxy.namespaces import Endpoint
from nodes.proxy.rpcs import NamespaceRpcs

LINK = (4, 2)
OUR_END = ("10.0.0.4", 40_000)


class ScriptedRpcs(NamespaceRpcs):
    """Attempts to connect end as given, in order; no proxy accepts any."""

    def __init__(self, *attempts: bool) -> None:
        self.attempts = iter(attempts)
        self.are_marked: list[bool] = []

    async def _probe(self, link: Link, marked: bool) -> Endpoint | None:
        assert link == LINK
        self.are_marked.append(marked)
        return OUR_END if next(self.attempts) else None

    async def _accepted_by_proxy(self, peers: Iterable[Endpoint]) -> set[Endpoint]:  # noqa: ARG002
        return set()


@pytest.mark.parametrize(
    ("attempts", "route", "are_marked"),
    [
        ((True,), "direct", [False]),
        ((False, False), "no answer", [False, True]),
        ((False, True, False), "no proxy", [False, True, False]),
        ((False, True, True), "direct", [False, True, False]),
    ],
    ids=["it connects", "nothing connects", "it connects without the redirect only", "the server began to listen late"],
)
def test_proxy_is_missing_only_if_the_redirect_fails_before_and_after_a_direct_connection(
    attempts: tuple[bool, ...], route: Route, are_marked: list[bool]
) -> None:
    rpcs = ScriptedRpcs(*attempts)
    assert asyncio.run(rpcs.routes([LINK])) == {LINK: route}
    assert rpcs.are_marked == are_marked
