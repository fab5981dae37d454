"""An asyncio event loop whose time is that of a simulated cluster: waiting costs nothing.

    with virtual_loop(cluster) as loop:
        loop.run_until_complete(carry_out(…))

When no callback is ready, the cluster advances to the time of the next timer, or to a report that somebody waits for.
Timers that are due at the same time run in the order in which they were set, so a run does not depend on what else
waits.

Contains the loop. There are no sockets, files, threads or signals on it.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVarTuple

from nodes.simulation.cluster import SimulatedCluster

Args = TypeVarTuple("Args")

IDLE_MS = 3_600_000
"""How far time advances at most while nothing waits for a time: a run that waits for nothing has a defect."""


class _Timer(asyncio.TimerHandle):
    """A timer that is ordered by its time, and then by when it was set."""

    def __init__(self, order: int, when: float, *details: Any) -> None:
        super().__init__(when, *details)
        self._order = order

    def __lt__(self, other: Any) -> bool:
        return (self.when(), self._order) < (other.when(), other._order)


class _Advance:
    """What the loop takes for its selector: it lets virtual time pass instead of waiting for sockets."""

    def __init__(self, cluster: SimulatedCluster, work: Callable[[], object]) -> None:
        """work: a value that changes when the loop gets a callback or a timer."""
        self._cluster, self._work = cluster, work

    def select(self, timeout: float | None) -> list[Any]:
        """Advance by this many seconds, or until a report gives the loop work, which most do not."""
        if timeout is not None and timeout <= 0:
            return []
        cluster, before = self._cluster, self._work()
        end_ms = cluster.now_ms + (IDLE_MS if timeout is None else max(1, math.ceil(timeout * 1000 - 1e-6)))
        while cluster.now_ms < end_ms and self._work() == before:
            cluster.advance(end_ms)
        if timeout is None and self._work() == before:
            raise RuntimeError(f"nothing was reported in {IDLE_MS} ms of virtual time, and no timer is set")
        return []

    def close(self) -> None:
        """Nothing is open."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop of one simulated run."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._selector = _Advance(cluster, self._work)
        self._timers = 0

    def _work(self) -> tuple[int, int]:
        return self._timers, len(self._ready)  # type: ignore[attr-defined]

    def time(self) -> float:
        """Virtual time in seconds."""
        return self._cluster.now_ms / 1000

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As any loop does, with timers of a fixed order."""
        self._timers += 1
        timer = _Timer(self._timers, when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Called from other threads only, of which there are none."""


@contextmanager
def virtual_loop(cluster: SimulatedCluster) -> Iterator[VirtualLoop]:
    """A loop on the cluster's time until the end of the block; tasks that are left are cancelled."""
    loop = VirtualLoop(cluster)
    try:
        yield loop
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()
