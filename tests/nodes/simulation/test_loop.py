"""The event loop on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from nodes.simulation.loop import virtual_loop
from nodes.simulation.timeline import Action, Timeline


class Clock:
    """A cluster on which nothing happens but reports."""

    def __init__(self) -> None:
        self.timeline = Timeline()

    @property
    def now_ms(self) -> int:
        return self.timeline.now_ms

    def advance(self, until_ms: int) -> None:
        self.timeline.advance(until_ms)

    def report_after(self, delay_ms: int, action: Action) -> None:
        def report() -> None:
            action()
            self.timeline.interrupt()

        self.timeline.after(delay_ms, report)


def run(clock: Any, coroutine: Coroutine[Any, Any, Any]) -> Any:
    with virtual_loop(clock) as loop:
        return loop.run_until_complete(coroutine)


def test_waiting_takes_virtual_time_alone() -> None:
    clock = Clock()

    async def wait() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert run(clock, wait()) == 86_400
    assert clock.now_ms == 86_400_000


def test_report_of_the_cluster_wakes_up_who_waits_for_it() -> None:
    clock = Clock()

    async def wait() -> int:
        reported = asyncio.get_running_loop().create_future()
        clock.report_after(1_234, lambda: reported.set_result(clock.now_ms))
        async with asyncio.timeout(5):
            return int(await reported)

    assert run(clock, wait()) == 1_234


def test_report_that_nobody_waits_for_does_not_run_the_loop() -> None:
    clock = Clock()
    for at_ms in range(10, 1_000, 10):
        clock.report_after(at_ms, lambda: None)

    async def wait() -> None:
        await asyncio.sleep(1)

    with virtual_loop(clock) as loop:  # type: ignore[arg-type]
        turns, select = [], loop._selector.select
        loop._selector.select = lambda timeout: turns.append(timeout) or select(timeout)  # type: ignore[func-returns-value,method-assign]
        loop.run_until_complete(wait())
    assert clock.now_ms == 1_000
    assert len(turns) < 10


def test_timer_that_a_report_sets_is_not_late() -> None:
    clock = Clock()

    async def wait() -> list[float]:
        loop, rung = asyncio.get_running_loop(), []
        clock.report_after(100, lambda: loop.call_later(0.05, lambda: rung.append(clock.now_ms)))
        await asyncio.sleep(1)
        return rung

    assert run(clock, wait()) == [150]


def test_timers_of_the_same_time_run_in_the_order_in_which_they_were_set() -> None:
    order: list[int] = []

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        for number in range(50):
            loop.call_at(1.0, order.append, number)
            loop.call_at(0.5, lambda: None)
        await asyncio.sleep(2)

    run(Clock(), wait())
    assert order == list(range(50))


def test_shortest_wait_lets_time_pass() -> None:
    """A rest of a timeout that rounding has left must not be waited for again and again."""
    clock = Clock()

    async def wait() -> None:
        for _ in range(3):
            await asyncio.sleep(1e-15)

    run(clock, wait())
    assert clock.now_ms <= 3


def test_waiting_for_nothing_is_an_error() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="nothing was reported"):
        run(Clock(), wait())


def test_tasks_that_are_left_are_cancelled() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.append("cancelled")

    async def start() -> None:
        asyncio.create_task(endless())  # noqa: RUF006 - the loop's end cancels it
        await asyncio.sleep(0)

    run(Clock(), start())
    assert ended == ["cancelled"]
