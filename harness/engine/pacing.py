"""Generators that depend on time: sleep, time_limit, delay, stagger, bursts, ask_again. Times are run time in ns.

    time_limit(seconds(60), stagger(milliseconds(5), writes, seed=3))

Contains combinators that compare context.time_ns with their own state. Does not read clocks or wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from harness.engine.generator import PENDING, Context, Emitted, Generator, Pending, soonest
from harness.engine.randomness import draw_below
from harness.model import Op


def seconds(number: float) -> int:
    """Seconds as nanoseconds."""
    return round(number * 1_000_000_000)


def milliseconds(number: float) -> int:
    """Milliseconds as nanoseconds."""
    return round(number * 1_000_000)


class _Sleep(NamedTuple):
    """until_ns is None until the first call of next sets it."""

    duration_ns: int
    until_ns: int | None = None

    @property
    def reacts(self) -> bool:
        return False

    def next(self, context: Context) -> Emitted | None:
        until_ns = context.time_ns + self.duration_ns if self.until_ns is None else self.until_ns
        return (Pending(until_ns), _Sleep(self.duration_ns, until_ns)) if context.time_ns < until_ns else None

    def update(self, _context: Context, _event: Op) -> Generator:
        return self


def sleep(duration_ns: int) -> Generator:
    """Emit nothing for duration_ns from the first call of next; then exhausted."""
    return _Sleep(duration_ns)


class _TimeLimit(NamedTuple):
    """deadline_ns is None until the first call of next sets it."""

    duration_ns: int
    inner: Generator
    reacts: bool
    deadline_ns: int | None = None

    def next(self, context: Context) -> Emitted | None:
        deadline_ns = context.time_ns + self.duration_ns if self.deadline_ns is None else self.deadline_ns
        if context.time_ns >= deadline_ns or (emitted := self.inner.next(context)) is None:
            return None
        op, inner = emitted
        if isinstance(op, Pending):
            op = soonest((op, Pending(deadline_ns)))
        return op, _TimeLimit(self.duration_ns, inner, self.reacts, deadline_ns)

    def update(self, context: Context, event: Op) -> Generator:
        if not self.reacts:
            return self
        inner = self.inner.update(context, event)
        return self if inner is self.inner else _TimeLimit(self.duration_ns, inner, True, self.deadline_ns)


def time_limit(duration_ns: int, inner: Generator) -> Generator:
    """inner for at most duration_ns from the first call of next; open operations may complete later."""
    return _TimeLimit(duration_ns, inner, inner.reacts)


class _Paced(NamedTuple):
    """The next operation starts at next_ns at the earliest (None: now); spread_ns is the maximum random interval."""

    interval_ns: int
    spread_ns: int
    inner: Generator
    seed: int
    reacts: bool
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
        return _Paced(self.interval_ns, self.spread_ns, inner, seed, self.reacts, next_ns)

    def update(self, context: Context, event: Op) -> Generator:
        if not self.reacts:
            return self
        inner = self.inner.update(context, event)
        return self if inner is self.inner else self._with(inner, self.seed, self.next_ns)


def delay(interval_ns: int, inner: Generator) -> Generator:
    """At least interval_ns between the starts of consecutive operations."""
    return _Paced(interval_ns, 0, inner, 0, inner.reacts)


class _BackOff(NamedTuple):
    """No operation starts before next_ns, which is pause_ns after the last one that failed (None: none has)."""

    pause_ns: int
    inner: Generator
    next_ns: int | None = None

    @property
    def reacts(self) -> bool:
        return True

    def next(self, context: Context) -> Emitted | None:
        if self.next_ns is not None and context.time_ns < self.next_ns:
            return Pending(self.next_ns), self
        emitted = self.inner.next(context)
        return emitted and (emitted[0], _BackOff(self.pause_ns, emitted[1], self.next_ns))

    def update(self, context: Context, event: Op) -> Generator:
        inner = self.inner.update(context, event)
        next_ns = context.time_ns + self.pause_ns if event.type == "fail" else self.next_ns
        return self if inner is self.inner and next_ns == self.next_ns else _BackOff(self.pause_ns, inner, next_ns)


def back_off(pause_ns: int, inner: Generator) -> Generator:
    """A pause after each operation that fails: nodes that are down refuse thousands a second."""
    return _BackOff(pause_ns, inner)


def stagger(mean_interval_ns: int, inner: Generator, *, seed: int) -> Generator:
    """Random intervals between 0 and twice the mean between the starts of operations, over all workers.

    Intervals count from the time at which the previous operation was due, so that the mean rate holds: after a stall,
    delayed operations start without an interval.
    """
    assert mean_interval_ns > 0, f"expected a positive interval, got {mean_interval_ns}"
    return _Paced(mean_interval_ns, 2 * mean_interval_ns, inner, seed, inner.reacts)


class _Bursts(NamedTuple):
    """Until until_ns (None: not started), inner is paused or not; then the other."""

    mean_ns: int
    inner: Generator
    seed: int
    reacts: bool
    is_paused: bool = False
    until_ns: int | None = None

    def next(self, context: Context) -> Emitted | None:
        now = self._at(context.time_ns)
        assert now.until_ns is not None
        end = Pending(now.until_ns)
        if now.is_paused:
            return end, now
        emitted = now.inner.next(context)
        if emitted is None:
            return None
        op, inner = emitted
        return soonest((op, end)) if isinstance(op, Pending) else op, now._with(inner)

    def _at(self, time_ns: int) -> _Bursts:
        """The state at a time."""
        if self.until_ns is not None and time_ns < self.until_ns:
            return self
        length_ns, seed = draw_below(2 * self.mean_ns, self.seed)
        is_paused = self.until_ns is not None and not self.is_paused
        return _Bursts(self.mean_ns, self.inner, seed, self.reacts, is_paused, time_ns + 1 + length_ns)

    def _with(self, inner: Generator) -> _Bursts:
        return _Bursts(self.mean_ns, inner, self.seed, self.reacts, self.is_paused, self.until_ns)

    def update(self, context: Context, event: Op) -> Generator:
        if not self.reacts:
            return self
        inner = self.inner.update(context, event)
        return self if inner is self.inner else self._with(inner)


def bursts(mean_ns: int, inner: Generator, *, seed: int) -> Generator:
    """inner and pauses in turn, each for a random time between 0 and twice the mean.

    The operations that stagger delayed in a pause follow it without intervals.
    """
    assert mean_ns > 0, f"expected a positive time, got {mean_ns}"
    return _Bursts(mean_ns, inner, seed, inner.reacts)


Question = Callable[[Op], Op | None]
"""Maps an operation that ended in `info` to one that shows whether it took effect, None for no such operation."""


class _AskAgain(NamedTuple):
    """due are the questions and the times at which they start, the earliest first."""

    delays_ns: Sequence[int]
    question: Question
    inner: Generator
    due: tuple[tuple[int, Op], ...] = ()

    @property
    def reacts(self) -> bool:
        return True

    def next(self, context: Context) -> Emitted | None:
        is_due = bool(self.due) and self.due[0][0] <= context.time_ns
        if is_due and (process := context.free_process()) is not None:
            return self.due[0][1].for_process(process), self._with(self.inner, self.due[1:])
        then = PENDING if is_due or not self.due else Pending(self.due[0][0])
        emitted = self.inner.next(context)
        if emitted is None:
            return (then, self) if self.due else None
        op, inner = emitted
        return soonest((op, then)) if isinstance(op, Pending) else op, self._with(inner, self.due)

    def update(self, context: Context, event: Op) -> Generator:
        inner = self.inner.update(context, event)
        asked = self.question(event) if event.type == "info" else None
        if asked is None:
            return self if inner is self.inner else self._with(inner, self.due)
        added = [(event.time_ns + delay_ns, asked) for delay_ns in self.delays_ns]
        return self._with(inner, tuple(sorted((*self.due, *added), key=lambda each: each[0])))

    def _with(self, inner: Generator, due: tuple[tuple[int, Op], ...]) -> Generator:
        return _AskAgain(self.delays_ns, self.question, inner, due)


def ask_again(delays_ns: Sequence[int], question: Question, inner: Generator) -> Generator:
    """inner, and this long after each operation that ended in `info` the question about it, before inner's operations.

    Exhausted when inner is and every question was asked.
    """
    return _AskAgain(delays_ns, question, inner)
