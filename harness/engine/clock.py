"""The run's clock: nanoseconds since the run began, and how wall-clock times relate to them.

Run time comes from the machine's monotonic clock, so that a step of the wall clock bends no history. The wall time at
which the run began is kept, so that the time stamps of log lines can be moved onto run time; they are as good as the
wall clock of the node that wrote them.

What may live here: clocks. Nothing else in the engine reads one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Tells the run's time."""

    def now_ns(self) -> int:
        """Nanoseconds since the run began; never decreases."""


@dataclass(frozen=True, slots=True)
class RunClock:
    """The real clock of a run; both origins are the same moment, on the monotonic and on the wall clock."""

    monotonic_origin_ns: int
    wall_origin_ns: int

    @classmethod
    def started_now(cls) -> RunClock:
        """The clock of a run that begins now."""
        return cls(time.monotonic_ns(), time.time_ns())

    def now_ns(self) -> int:
        return time.monotonic_ns() - self.monotonic_origin_ns

    def at_wall_ns(self, wall_ns: int) -> int:
        """The run time of a wall-clock time (nanoseconds since 1970); negative if that was before the run."""
        return wall_ns - self.wall_origin_ns


@dataclass(slots=True)
class VirtualClock:
    """A clock that a test sets."""

    time_ns: int = 0

    def now_ns(self) -> int:
        return self.time_ns
