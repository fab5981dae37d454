"""The run's clock: run time in nanoseconds since the start of the run, and its relation to wall-clock time.

Run time is based on the machine's monotonic clock, so steps of the wall clock do not affect histories. The wall-clock
time of the start is kept so that observers can convert timestamps of log lines to run time; they are as accurate as the
wall clock of the node that wrote them.

Contains clocks. No other module of the engine reads one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """A source of run time."""

    def now_ns(self) -> int:
        """Nanoseconds since the start of the run; never decreases."""


@dataclass(frozen=True, slots=True)
class RunClock:
    """The real clock of a run; both origins are the start of the run, on the monotonic and on the wall clock."""

    monotonic_origin_ns: int
    wall_origin_ns: int

    @classmethod
    def started_now(cls) -> RunClock:
        """The clock of a run that starts now."""
        return cls(time.monotonic_ns(), time.time_ns())

    def now_ns(self) -> int:
        return time.monotonic_ns() - self.monotonic_origin_ns


@dataclass(slots=True)
class VirtualClock:
    """A clock for tests, which set its time."""

    time_ns: int = 0

    def now_ns(self) -> int:
        return self.time_ns
