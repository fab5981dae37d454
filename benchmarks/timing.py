"""How the benchmarks measure time: the best of several runs, and the milliseconds of an awaitable."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable


def best(run: Callable[[], object], times: int = 3) -> float:
    """Seconds of the fastest of several runs, after one more run that warms up."""
    run()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)


async def timed(times_ms: list[float], work: Awaitable[object]) -> None:
    """Await work and append the milliseconds that it took."""
    began = time.perf_counter()
    await work
    times_ms.append((time.perf_counter() - began) * 1000)
