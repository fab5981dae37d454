"""SIGTERM and Ctrl-C: no new request is sent, and what is under way is waited for.

The second signal ends the process at once, as if nothing had been installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """An event that the first signal sets; the caller runs in the main thread's event loop."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def restore() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    def on_signal() -> None:
        stop.set()
        restore()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield stop
    finally:
        restore()


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do work that changes nothing in the cluster; give it up when the event is set. Returns whether it ended."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        working.result()
        return True
    finally:
        for each in (working, stopping):
            each.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait for so long, or until the event is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
