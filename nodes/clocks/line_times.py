"""The times of log lines, whatever clock they were written by.

A line is stamped by its node's clock, which a fault may have moved; left so, a node's deeds would come out of order and
be judged as if the node had done them so. A line is told soon after it was written: a stamp that is not of the last
moments was not the true time, and the moment of telling stands in its place.

What may live here: the correction of times. What may not: clocks, which are an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.model import Observation

LATE_NS = 1_000_000_000
"""How long before it is told a line may have been written: a look at the log, and a busy controller."""

AHEAD_NS = 5_000_000
"""How far ahead a true stamp may seem, since the run's clock and the wall clock are set beside each other once."""


class LineTimes:
    """Passes observations on; a node's log lines with times near the true ones, never earlier than the line before."""

    def __init__(self, now_ns: Callable[[], int], tell: Callable[[Observation], None]) -> None:
        self._now_ns = now_ns
        self._tell = tell
        self._last_ns: dict[int, int] = {}

    def observe(self, seen: Observation) -> None:
        """Take an observation; what is no log line passes as it is."""
        self._tell(replace(seen, time_ns=self._line_ns(seen)) if seen.source == "log" else seen)

    def _line_ns(self, seen: Observation) -> int:
        now_ns = self._now_ns()
        recent = now_ns - LATE_NS <= seen.time_ns <= now_ns + AHEAD_NS
        line_ns = max(seen.time_ns if recent else now_ns, self._last_ns.get(seen.node, 0))
        self._last_ns[seen.node] = line_ns
        return line_ns
