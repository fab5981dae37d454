"""Generators that depend on time: sleep, time_limit, delay, stagger. All times are run time in nanoseconds.

    time_limit(seconds(60), stagger(milliseconds(5), writes, seed=3))

Contains combinators that compare context.time_ns with their own state. Does not read clocks or wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.engine.generator import Context, Emitted, Generator, Pending, soonest
from harness.engine.randomness import draw_below
from harness.model import Op


def seconds(number: float) -> int:
    """Seconds as nanoseconds."""
    return round(number * 1_000_000_000)


def milliseconds(number: float) -> int:
    """Milliseconds as nanoseconds."""
    return round(number * 1_000_000)


@dataclass(frozen=True, slots=True)
class _Sleep:
    """until_ns is None until the first call of next sets it."""

    duration_ns: int
    until_ns: int | None = None

    def next(self, context: Context) -> Emitted | None:
        until_ns = context.time_ns + self.duration_ns if self.until_ns is None else self.until_ns
        return (Pending(until_ns), _Sleep(self.duration_ns, until_ns)) if context.time_ns < until_ns else None

    def update(self, _context: Context, _event: Op) -> Generator:
        return self


def sleep(duration_ns: int) -> Generator:
    """Emit nothing for duration_ns from the first call of next; then exhausted."""
    return _Sleep(duration_ns)


@dataclass(frozen=True, slots=True)
class _TimeLimit:
    """deadline_ns is None until the first call of next sets it."""

    duration_ns: int
    inner: Generator
    deadline_ns: int | None = None

    def next(self, context: Context) -> Emitted | None:
        deadline_ns = context.time_ns + self.duration_ns if self.deadline_ns is None else self.deadline_ns
        if context.time_ns >= deadline_ns or (emitted := self.inner.next(context)) is None:
            return None
        op, inner = emitted
        if isinstance(op, Pending):
            op = soonest((op, Pending(deadline_ns)))
        return op, _TimeLimit(self.duration_ns, inner, deadline_ns)

    def update(self, context: Context, event: Op) -> Generator:
        inner = self.inner.update(context, event)
        return self if inner is self.inner else _TimeLimit(self.duration_ns, inner, self.deadline_ns)


def time_limit(duration_ns: int, inner: Generator) -> Generator:
    """inner for at most duration_ns from the first call of next; open operations may complete later."""
    return _TimeLimit(duration_ns, inner)


@dataclass(frozen=True, slots=True)
class _Paced:
    """The next operation starts at next_ns at the earliest (None: now); spread_ns is the maximum random interval."""

    interval_ns: int
    spread_ns: int
    inner: Generator
    seed: int
    next_ns: int | None = None

    def next(self, context: Context) -> Emitted | None:
        if self.next_ns is not None and context.time_ns < self.next_ns:
            return Pending(self.next_ns), self
        emitted = self.inner.next(context)
        if emitted is None or isinstance(emitted[0], Pending):
            return emitted and (emitted[0], self._with(emitted[1], self.seed, self.next_ns))
        return emitted[0], self._after(context.time_ns, emitted[1])

    def _after(self, time_ns: int, inner: Generator) -> Generator:
        if self.spread_ns == 0:
            return self._with(inner, self.seed, time_ns + self.interval_ns)
        wait_ns, seed = draw_below(self.spread_ns, self.seed)
        due_ns = time_ns if self.next_ns is None else self.next_ns
        return self._with(inner, seed, due_ns + wait_ns)

    def _with(self, inner: Generator, seed: int, next_ns: int | None) -> Generator:
        return _Paced(self.interval_ns, self.spread_ns, inner, seed, next_ns)

    def update(self, context: Context, event: Op) -> Generator:
        inner = self.inner.update(context, event)
        return self if inner is self.inner else self._with(inner, self.seed, self.next_ns)


def delay(interval_ns: int, inner: Generator) -> Generator:
    """At least interval_ns between the starts of consecutive operations."""
    return _Paced(interval_ns, 0, inner, seed=0)


def stagger(mean_interval_ns: int, inner: Generator, *, seed: int) -> Generator:
    """Random intervals between 0 and twice the mean between the starts of operations, over all workers.

    Intervals count from the time at which the previous operation was due, so that the mean rate holds: after a stall,
    delayed operations start without an interval.
    """
    assert mean_interval_ns > 0, f"expected a positive interval, got {mean_interval_ns}"
    return _Paced(mean_interval_ns, 2 * mean_interval_ns, inner, seed)
