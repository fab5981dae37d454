"""Virtual time: actions that are due at a time, carried out in order of time and then of their scheduling.

    timeline = Timeline()
    timeline.after(30, lambda: …)
    timeline.advance(1_000)

Contains the queue. Does not contain what happens.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Timeline:
    """The actions that are due. now_ms is the time of the last one that was carried out, or that time has reached."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._count = 0
        self._is_interrupted = False
        self._queue: list[tuple[int, int, Action]] = []

    def after(self, delay_ms: int, action: Action) -> None:
        """Carry out an action this many milliseconds from now."""
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._count, action))

    def interrupt(self) -> None:
        """An action asks that time stops after it."""
        self._is_interrupted = True

    def advance(self, until_ms: int) -> None:
        """Carry out what is due until then, or until an action interrupts."""
        queue, self._is_interrupted = self._queue, False
        while queue and queue[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(queue)
            action()
            if self._is_interrupted:
                return
        self.now_ms = max(self.now_ms, until_ms)
