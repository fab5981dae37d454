"""Deadlines: asyncio.timeout for tasks that often await something and rarely for too long.

A timer for each operation costs more than its dispatch. A Deadline is only a point in time, and one task, `enforce`,
sleeps until the first of them. What starts meanwhile is due later, because all have the same timeout.

    with deadline:
        completion = await session.invoke(op)  # TimeoutError after timeout_s

Contains this. Does not contain what a timeout means (worker.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from types import TracebackType
from typing import Any


@dataclass(slots=True)
class Deadline:
    """For one task, any number of times. due_s is in the event loop's time, inf while nothing is due."""

    timeout_s: float
    task: asyncio.Task[Any] | None = None
    due_s: float = inf
    expired: bool = False

    def __enter__(self) -> None:
        if self.task is None:
            self.task = asyncio.current_task()
        self.due_s = asyncio.get_running_loop().time() + self.timeout_s

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.due_s = inf
        if self.expired:
            self.expired = False
            # Not 0 if the task is cancelled for another reason too, which has priority.
            if self.task and self.task.uncancel() == 0 and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def expire(self) -> None:
        """Cancel what the task awaits."""
        assert self.task, "nothing is due"
        self.due_s, self.expired = inf, True
        self.task.cancel()


async def enforce(deadlines: Sequence[Deadline], timeout_s: float) -> None:
    """Expire these deadlines when they are due, until cancelled; timeout_s is that of all of them."""
    loop = asyncio.get_running_loop()
    while True:
        now_s = loop.time()
        for deadline in deadlines:
            if deadline.due_s <= now_s:
                deadline.expire()
        await asyncio.sleep(min(timeout_s, *(deadline.due_s - now_s for deadline in deadlines)))
