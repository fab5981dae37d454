"""Deadlines: they end what takes too long, and only that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from harness.engine.deadline import Deadline, enforce

TIMEOUT_S = 0.1


def enforced(use: Callable[[Deadline], Awaitable[None]]) -> float:
    """Use a deadline that is enforced; returns the seconds that it took."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        deadline = Deadline(TIMEOUT_S)
        enforcing = asyncio.create_task(enforce([deadline], TIMEOUT_S))
        began = loop.time()
        await asyncio.wait_for(use(deadline), 10)
        enforcing.cancel()
        return loop.time() - began

    return asyncio.run(main())


async def hang_after_short_waits(deadline: Deadline) -> None:
    for _ in range(3):
        with deadline:
            await asyncio.sleep(TIMEOUT_S / 2)
    with pytest.raises(TimeoutError), deadline:
        await asyncio.Event().wait()


def test_each_wait_has_the_whole_timeout() -> None:
    assert 2.5 * TIMEOUT_S <= enforced(hang_after_short_waits) < 2.5 * TIMEOUT_S + 2


async def ignore_cancellation_and_hang(deadline: Deadline) -> None:
    with deadline, suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await hang_after_short_waits(deadline)


def test_a_session_that_ignores_its_cancellation_is_timed_out_the_next_time_too() -> None:
    assert enforced(ignore_cancellation_and_hang) >= 3.5 * TIMEOUT_S


async def cancel_from_outside(deadline: Deadline) -> None:
    async def wait() -> None:
        with deadline:
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    deadline.expire()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_a_cancellation_from_outside_has_priority() -> None:
    enforced(cancel_from_outside)
