"""An observer for systems of any protocol: asks every node for its status at intervals, and records who claims to lead.

    observe = partial(PollingObserver, ask=status)       # async def status(view: HostView) -> Status | None

What a node answers is its own view: a deposed leader that still claims to lead is recorded as it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from harness.model import Observation
from harness.model.conditions import Condition
from harness.model.hosts import HostView
from harness.model.records.observation import Kind
from harness.model.systems import ObserverContext

POLL_SECONDS = 0.2
SOURCE = "status"


@dataclass(frozen=True, slots=True)
class Status:
    """What a node answers: its epoch (term), its own id, and the id of the leader that it knows ("" for none).

    A node whose own id is the leader's claims to lead. Ids are the system's own.
    """

    epoch: int
    own_id: str
    leader_id: str

    @property
    def leads(self) -> bool:
        """Whether the node claims to lead."""
        return self.own_id == self.leader_id


Ask = Callable[[HostView], Awaitable[Status | None]]
"""Asks a node for its status; None where it does not answer. It must end within about a second."""


class PollingObserver:
    """harness.model.systems.Observer by polling."""

    def __init__(self, context: ObserverContext, ask: Ask) -> None:
        self._context, self._ask = context, ask
        self._statuses: dict[int, Status] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Condition()

    def start(self) -> None:
        """Begin to poll every node."""
        self._tasks = [asyncio.create_task(self._poll(node)) for node in self._context.views]

    async def stop(self) -> None:
        """Stop polling. Raises what a poll failed with."""
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    def forget(self, node: int) -> None:
        """What the node answered last no longer holds."""
        self._statuses.pop(node, None)

    def leader(self) -> int | None:
        """The node that claims to lead in the highest epoch."""
        claims = [(status.epoch, node) for node, status in self._statuses.items() if status.leads]
        return max(claims)[1] if claims else None

    def nodes_where(self, condition: str) -> tuple[int, ...]:
        """The nodes for which a condition of single nodes holds now; none if a status cannot show it."""
        return tuple(node for node in self._context.views if self._holds(Condition(condition, node)))

    async def until(self, condition: Condition, timeout_seconds: float) -> bool:
        """Wait until the condition holds; False if it does not in time, or if a status cannot show it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds), self._changed:
                await self._changed.wait_for(lambda: self._holds(condition))
                return True
        return False

    def _holds(self, condition: Condition) -> bool:
        leader = self.leader()
        if condition.name == "leader_known":
            return leader is not None
        if condition.name == "is_not_leader":
            return leader not in (None, condition.node)
        if condition.name not in ("all_follow_leader", "all_follow") or leader is None:
            return False
        epoch = self._statuses[leader].epoch
        seen = [self._statuses.get(node) for node in self._context.views]
        leader_id = self._statuses[leader].own_id
        agreed = all(each is not None and (each.leader_id, each.epoch) == (leader_id, epoch) for each in seen)
        return agreed and condition.node in (None, leader)

    async def _poll(self, node: int) -> None:
        view, before = self._context.views[node], None
        while True:
            status = await self._ask(view)
            if status is None:
                self._statuses.pop(node, None)
            else:
                self._statuses[node] = status
            if status is not None and (status.leads or status != before):
                self._record(node, status)
            before = status
            async with self._changed:
                self._changed.notify_all()
            await asyncio.sleep(POLL_SECONDS)

    def _record(self, node: int, status: Status) -> None:
        kind: Kind = "claim" if status.leads else "denial"
        now_ns = self._context.now_ns()
        leader = node if status.leads else None
        self._context.observe(Observation(now_ns, node, SOURCE, kind, epoch=status.epoch, leader=leader))
