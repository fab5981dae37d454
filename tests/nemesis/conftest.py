"""Fake links and processes, and the nemesis context of a quorum of three that uses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from harness.model.hosts import Link
from nemesis.context import NemesisContext


class FakeLinks:
    """Fake links: those in `leaking` always pass packets, those in `dead` never do."""

    def __init__(self) -> None:
        self.down: set[Link] = set()
        self.leaking: set[Link] = set()
        self.dead: set[Link] = set()
        self.on_cut = lambda: None

    async def cut(self, links: Iterable[Link]) -> None:
        self.on_cut()
        self.down |= set(links)

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        self.down -= set(self.down if links is None else links)

    async def passes(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        failing = (self.down - self.leaking) | self.dead
        return {link: link not in failing for link in links}


class FakeProcesses:
    """Fake processes, by state; a node in `stuck` never changes its state."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self.states = dict.fromkeys(nodes, "running")
        self.stuck: set[int] = set()
        self.actions: list[tuple[str, int]] = []

    def _become(self, action: str, node: int, state: str) -> None:
        self.actions.append((action, node))
        if node not in self.stuck:
            self.states[node] = state

    async def start(self, node: int) -> None:
        self._become("start", node, "running")

    async def kill(self, node: int) -> None:
        self._become("kill", node, "gone")

    async def stop(self, node: int) -> None:
        self._become("stop", node, "gone")

    async def pause(self, node: int) -> None:
        self._become("pause", node, "paused")

    async def resume(self, node: int) -> None:
        self._become("resume", node, "running")

    def state(self, node: int) -> str:
        return self.states[node]


@pytest.fixture
def context() -> NemesisContext:
    """Nodes 1 to 3, led by node 2; a draw is always the largest number."""
    return NemesisContext((1, 2, 3), FakeLinks(), FakeProcesses((1, 2, 3)), lambda: 2, lambda below: below - 1)
