"""Generators made of generators: order, choice and number.

    phases(limit(100, writes), then(mark("reading back"), reads))

What may live here: combinators that look at neither the time (pacing.py) nor the workers' numbers (placement.py).
What may not: state that changes, clocks, random sources.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from harness.engine.generator import PENDING, Context, Generator, Pending, Turn, soonest
from harness.engine.randomness import draw_below
from harness.model import Op

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Limit:
    """remaining operations may still be emitted."""

    remaining: int
    inner: Generator

    def next(self, context: Context) -> Turn | None:
        if self.remaining == 0 or (step := self.inner.next(context)) is None:
            return None
        what, inner = step
        return what, _Limit(self.remaining - isinstance(what, Op), inner)

    def update(self, context: Context, event: Op) -> Generator:
        return _Limit(self.remaining, self.inner.update(context, event))


def limit(count: int, inner: Generator) -> Generator:
    """At most count operations of inner."""
    return _Limit(count, inner)


@dataclass(frozen=True, slots=True)
class _Repeat:
    """current runs; whenever it is exhausted, whole begins anew, while rounds (None: no bound) are left."""

    whole: Generator
    current: Generator
    rounds: int | None

    def next(self, context: Context) -> Turn | None:
        if step := self.current.next(context):
            return step[0], _Repeat(self.whole, step[1], self.rounds)
        if self.rounds == 0 or (step := self.whole.next(context)) is None:
            return None
        return step[0], _Repeat(self.whole, step[1], None if self.rounds is None else self.rounds - 1)

    def update(self, context: Context, event: Op) -> Generator:
        return _Repeat(self.whole, self.current.update(context, event), self.rounds)


def repeat(inner: Generator, rounds: int | None = None) -> Generator:
    """inner from its beginning again whenever it is exhausted: rounds times in all, or without end."""
    assert rounds is None or rounds > 0, f"expected a positive number of rounds, got {rounds}"
    return _Repeat(inner, inner, None if rounds is None else rounds - 1)


@dataclass(frozen=True, slots=True)
class _Then:
    """parts run one after another; the last begins when those before it are exhausted."""

    parts: tuple[Generator, ...]

    def next(self, context: Context) -> Turn | None:
        for position, part in enumerate(self.parts):
            if step := part.next(context):
                return step[0], _Then((step[1], *self.parts[position + 1 :]))
        return None

    def update(self, context: Context, event: Op) -> Generator:
        return _Then((self.parts[0].update(context, event), *self.parts[1:])) if self.parts else self


def then(*parts: Generator) -> Generator:
    """The parts in order, each beginning as soon as the one before has emitted all, completed or not."""
    return _Then(parts)


@dataclass(frozen=True, slots=True)
class _Synchronize:
    """inner, begun only once every worker in view is free."""

    inner: Generator

    def next(self, context: Context) -> Turn | None:
        return self.inner.next(context) if context.all_free() else (PENDING, self)

    def update(self, _context: Context, _event: Op) -> Generator:
        return self


def synchronize(inner: Generator) -> Generator:
    """inner, once no worker in view has an operation open."""
    return _Synchronize(inner)


def phases(*parts: Generator) -> Generator:
    """The parts in order, each beginning when every operation of those before it is completed."""
    return _Then(tuple(_Synchronize(part) for part in parts))


@dataclass(frozen=True, slots=True)
class _AnyOf:
    """branches that are not exhausted as far as is known."""

    branches: tuple[Generator, ...]

    def next(self, context: Context) -> Turn | None:
        remaining: list[Generator] = []
        waits: list[Pending] = []
        for position, branch in enumerate(self.branches):
            step = branch.next(context)
            if step is None:
                continue
            what, after = step
            if isinstance(what, Op):
                return what, _AnyOf((*remaining, after, *self.branches[position + 1 :]))
            remaining.append(after)
            waits.append(what)
        return (soonest(waits), _AnyOf(tuple(remaining))) if remaining else None

    def update(self, context: Context, event: Op) -> Generator:
        return _AnyOf(tuple([branch.update(context, event) for branch in self.branches]))


def any_of(*branches: Generator) -> Generator:
    """All branches side by side: each time, the first of them that has an operation now; exhausted when all are.

    Branches that compete for the same workers are served in the order given: put the rarer one first.
    """
    return _AnyOf(branches)


@dataclass(frozen=True, slots=True)
class _Mix:
    """chosen is the branch that emits next; it was drawn when the one before it had emitted."""

    weights: tuple[int, ...]
    branches: tuple[Generator, ...]
    chosen: int
    seed: int

    def next(self, context: Context) -> Turn | None:
        step = self.branches[self.chosen].next(context)
        if step is None:
            rest = _without(self.weights, self.chosen), _without(self.branches, self.chosen)
            return _choose(*rest, self.seed).next(context) if rest[0] else None
        what, after = step
        branches = (*self.branches[: self.chosen], after, *self.branches[self.chosen + 1 :])
        if isinstance(what, Pending):
            return what, _Mix(self.weights, branches, self.chosen, self.seed)
        return what, _choose(self.weights, branches, self.seed)

    def update(self, context: Context, event: Op) -> Generator:
        branches = tuple([branch.update(context, event) for branch in self.branches])
        return _Mix(self.weights, branches, self.chosen, self.seed)


def _without(items: tuple[T, ...], position: int) -> tuple[T, ...]:
    return items[:position] + items[position + 1 :]


def _choose(weights: tuple[int, ...], branches: tuple[Generator, ...], seed: int) -> _Mix:
    drawn, seed = draw_below(sum(weights), seed)
    chosen = bisect_right(tuple(accumulate(weights)), drawn)
    return _Mix(weights, branches, chosen, seed)


def mix(choices: Sequence[tuple[int, Generator]], *, seed: int) -> Generator:
    """Each operation from a branch drawn by weight; an exhausted branch drops out, and with the last one all ends.

    A drawn branch that is pending is waited for, so that the weights hold.
    """
    assert choices, "expected at least one branch to choose from"
    assert all(weight > 0 for weight, _ in choices), "expected positive weights"
    return _choose(tuple(weight for weight, _ in choices), tuple(branch for _, branch in choices), seed)


@dataclass(frozen=True, slots=True)
class _UntilOk:
    """open holds the processes whose operations came from here and have not ended."""

    inner: Generator
    open: frozenset[int] = frozenset()
    done: bool = False

    def next(self, context: Context) -> Turn | None:
        if self.done or (step := self.inner.next(context)) is None:
            return None
        what, inner = step
        emitted = {what.process} if isinstance(what, Op) else set()
        return what, _UntilOk(inner, self.open | emitted)

    def update(self, context: Context, event: Op) -> Generator:
        inner = self.inner.update(context, event)
        if event.type == "invoke" or event.process not in self.open:
            return _UntilOk(inner, self.open, self.done)
        return _UntilOk(inner, self.open - {event.process}, self.done or event.type == "ok")


def until_ok(inner: Generator) -> Generator:
    """inner until one of the operations that it emitted ends in `ok`."""
    return _UntilOk(inner)


@dataclass(frozen=True, slots=True)
class _Alongside:
    """companion runs for as long as main does."""

    main: Generator
    companion: Generator

    def next(self, context: Context) -> Turn | None:
        step = self.main.next(context)
        if step is None:
            return None
        what, main = step
        if isinstance(what, Op):
            return what, _Alongside(main, self.companion)
        beside = self.companion.next(context)
        if beside is None:
            return what, main
        also, companion = beside
        rest = _Alongside(main, companion)
        return (also, rest) if isinstance(also, Op) else (soonest((what, also)), rest)

    def update(self, context: Context, event: Op) -> Generator:
        return _Alongside(self.main.update(context, event), self.companion.update(context, event))


def alongside(main: Generator, companion: Generator) -> Generator:
    """main, with companion beside it while main lasts; main goes first and its end ends both."""
    return _Alongside(main, companion)
