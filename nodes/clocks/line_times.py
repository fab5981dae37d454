"""Corrects the times of log lines that were written under a skewed clock.

A log line is stamped with its node's clock, which a fault may have skewed. Uncorrected, the node's actions would appear
in the wrong order and be checked in that order. A line is observed shortly after it was written, so a stamp that is not
recent is wrong; it is replaced by the time of observation.

Contains the correction. Clocks are arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.model import Observation

LATE_NS = 1_000_000_000
"""How long a line may wait before it is observed: one poll of the log, on a busy machine."""

AHEAD_NS = 5_000_000
"""How far in the future a correct stamp may appear: the run's clock is aligned with the wall clock only once."""


class LineTimes:
    """Forwards observations; a node's log lines get times near the true ones, in non-decreasing order."""

    def __init__(self, now_ns: Callable[[], int], forward: Callable[[Observation], None]) -> None:
        self._now_ns = now_ns
        self._forward = forward
        self._last_ns: dict[int, int] = {}

    def observe(self, observation: Observation) -> None:
        """Forward an observation; those that are not log lines are unchanged."""
        is_line = observation.source == "log"
        self._forward(replace(observation, time_ns=self._line_ns(observation)) if is_line else observation)

    def _line_ns(self, line: Observation) -> int:
        now_ns = self._now_ns()
        is_recent = now_ns - LATE_NS <= line.time_ns <= now_ns + AHEAD_NS
        line_ns = max(line.time_ns if is_recent else now_ns, self._last_ns.get(line.node, 0))
        self._last_ns[line.node] = line_ns
        return line_ns
