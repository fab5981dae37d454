"""Combinators of generators by order, choice and number.

    phases(limit(100, writes), then(mark("reading back"), reads))

Contains combinators that depend neither on time (pacing.py) nor on particular workers (placement.py). Does not contain
mutable state, clocks or random sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from harness.engine.generator import PENDING, Context, Emitted, Generator, Pending, build, soonest, update_each
from harness.engine.randomness import draw_below
from harness.model import Op

T = TypeVar("T")


def _any_reacts(generators: Sequence[Generator]) -> bool:
    return any(generator.reacts for generator in generators)


class _Limit(NamedTuple):
    """At most `remaining` more operations."""

    remaining: int
    inner: Generator
    reacts: bool

    def next(self, context: Context) -> Emitted | None:
        if self.remaining == 0 or (emitted := self.inner.next(context)) is None:
            return None
        op, inner = emitted
        return op, build(_Limit, (self.remaining - isinstance(op, Op), inner, self.reacts))

    def update(self, context: Context, event: Op) -> Generator:
        if not self.reacts:
            return self
        inner = self.inner.update(context, event)
        return self if inner is self.inner else _Limit(self.remaining, inner, True)


def limit(count: int, inner: Generator) -> Generator:
    """At most count operations of inner."""
    return _Limit(count, inner, inner.reacts)


class _Repeat(NamedTuple):
    """When current is exhausted, whole starts again, `rounds` more times (None: without limit)."""

    whole: Generator
    current: Generator
    rounds: int | None
    reacts: bool

    def next(self, context: Context) -> Emitted | None:
        if emitted := self.current.next(context):
            return emitted[0], _Repeat(self.whole, emitted[1], self.rounds, self.reacts)
        if self.rounds == 0 or (emitted := self.whole.next(context)) is None:
            return None
        rounds = None if self.rounds is None else self.rounds - 1
        return emitted[0], _Repeat(self.whole, emitted[1], rounds, self.reacts)

    def update(self, context: Context, event: Op) -> Generator:
        if not self.reacts:
            return self
        current = self.current.update(context, event)
        return self if current is self.current else _Repeat(self.whole, current, self.rounds, True)


def repeat(inner: Generator, rounds: int | None = None) -> Generator:
    """Start inner again whenever it is exhausted: `rounds` times in total, or without limit."""
    assert rounds is None or rounds > 0, f"expected a positive number of rounds, got {rounds}"
    return _Repeat(inner, inner, None if rounds is None else rounds - 1, inner.reacts)


class _Then(NamedTuple):
    """The remaining parts, in order; each starts when the previous one is exhausted."""

    parts: tuple[Generator, ...]
    reacts: bool

    def next(self, context: Context) -> Emitted | None:
        for position, part in enumerate(self.parts):
            if emitted := part.next(context):
                return emitted[0], _Then((emitted[1], *self.parts[position + 1 :]), self.reacts)
        return None

    def update(self, context: Context, event: Op) -> Generator:
        if not self.reacts:
            return self
        part = self.parts[0].update(context, event)
        return self if part is self.parts[0] else _Then((part, *self.parts[1:]), True)


def then(*parts: Generator) -> Generator:
    """The parts in order; each starts when the previous one is exhausted, even if operations are still open."""
    return _Then(parts, _any_reacts(parts))


class _Synchronize(NamedTuple):
    """inner, not started until all workers in view are free."""

    inner: Generator

    @property
    def reacts(self) -> bool:
        return self.inner.reacts

    def next(self, context: Context) -> Emitted | None:
        return self.inner.next(context) if context.all_free() else (PENDING, self)

    def update(self, _context: Context, _event: Op) -> Generator:
        return self


def synchronize(inner: Generator) -> Generator:
    """Start inner when no worker in view has an open operation."""
    return _Synchronize(inner)


def phases(*parts: Generator) -> Generator:
    """The parts in order; each starts when all operations of the previous ones have completed."""
    return _Then(tuple(_Synchronize(part) for part in parts), _any_reacts(parts))


class _AnyOf(NamedTuple):
    """branches leaves out those that are known to be exhausted."""

    branches: tuple[Generator, ...]
    reacts: bool

    def next(self, context: Context) -> Emitted | None:
        remaining: list[Generator] = []
        pending: list[Pending] = []
        for position, branch in enumerate(self.branches):
            emitted = branch.next(context)
            if emitted is None:
                continue
            op, after = emitted
            if isinstance(op, Op):
                return op, _AnyOf((*remaining, after, *self.branches[position + 1 :]), self.reacts)
            remaining.append(after)
            pending.append(op)
        return (soonest(pending), _AnyOf(tuple(remaining), self.reacts)) if remaining else None

    def update(self, context: Context, event: Op) -> Generator:
        if not self.reacts:
            return self
        branches = update_each(self.branches, context, event)
        return self if branches is self.branches else _AnyOf(branches, True)


def any_of(*branches: Generator) -> Generator:
    """All branches concurrently: each time, the first branch that has an operation now; exhausted when all are.

    Branches that compete for the same workers have priority in the given order: put the less frequent one first.
    """
    return _AnyOf(branches, _any_reacts(branches))


class _Mix(NamedTuple):
    """chosen is the branch that emits next; it is chosen when the previous operation is emitted."""

    weights: tuple[int, ...]
    branches: tuple[Generator, ...]
    chosen: int
    seed: int
    reacts: bool

    def next(self, context: Context) -> Emitted | None:
        emitted = self.branches[self.chosen].next(context)
        if emitted is None:
            rest = _without(self.weights, self.chosen), _without(self.branches, self.chosen)
            return _choose(*rest, self.seed, self.reacts).next(context) if rest[0] else None
        op, after = emitted
        branches = (*self.branches[: self.chosen], after, *self.branches[self.chosen + 1 :])
        if isinstance(op, Pending):
            return op, _Mix(self.weights, branches, self.chosen, self.seed, self.reacts)
        return op, _choose(self.weights, branches, self.seed, self.reacts)

    def update(self, context: Context, event: Op) -> Generator:
        if not self.reacts:
            return self
        branches = update_each(self.branches, context, event)
        return self if branches is self.branches else _Mix(self.weights, branches, self.chosen, self.seed, True)


def _without(items: tuple[T, ...], position: int) -> tuple[T, ...]:
    return items[:position] + items[position + 1 :]


def _choose(weights: tuple[int, ...], branches: tuple[Generator, ...], seed: int, reacts: bool) -> _Mix:
    number, seed = draw_below(sum(weights), seed)
    chosen = 0
    while number >= weights[chosen]:
        number -= weights[chosen]
        chosen += 1
    return build(_Mix, (weights, branches, chosen, seed, reacts))


def mix(choices: Sequence[tuple[int, Generator]], *, seed: int) -> Generator:
    """Each operation from a branch chosen by weight; exhausted branches drop out; exhausted when all are.

    If the chosen branch is pending, so is the mix, so that the weights hold.
    """
    assert choices, "expected at least one branch to choose from"
    assert all(weight > 0 for weight, _ in choices), "expected positive weights"
    weights, branches = zip(*choices, strict=True)
    return _choose(weights, branches, seed, _any_reacts(branches))


class _UntilOk(NamedTuple):
    """open are the processes with open operations that inner emitted."""

    inner: Generator
    open: frozenset[int] = frozenset()
    done: bool = False

    @property
    def reacts(self) -> bool:
        return True

    def next(self, context: Context) -> Emitted | None:
        if self.done or (emitted := self.inner.next(context)) is None:
            return None
        op, inner = emitted
        opened = {op.process} if isinstance(op, Op) else set()
        return op, _UntilOk(inner, self.open | opened)

    def update(self, context: Context, event: Op) -> Generator:
        inner = self.inner.update(context, event)
        if event.type == "invoke" or event.process not in self.open:
            return self if inner is self.inner else _UntilOk(inner, self.open, self.done)
        return _UntilOk(inner, self.open - {event.process}, self.done or event.type == "ok")


def until_ok(inner: Generator) -> Generator:
    """inner until one of its operations completes as `ok`."""
    return _UntilOk(inner)


class _AllOk(NamedTuple):
    """waiting are not emitted yet or did not complete as `ok`; open are the others, by process."""

    waiting: tuple[Op, ...]
    open: Mapping[int, Op]

    @property
    def reacts(self) -> bool:
        return True

    def next(self, context: Context) -> Emitted | None:
        if not self.waiting and not self.open:
            return None
        process = context.free_process()
        if not self.waiting or process is None:
            return PENDING, self
        first, *rest = self.waiting
        op = first.for_process(process)
        return op, _AllOk(tuple(rest), {**self.open, op.process: first})

    def update(self, _context: Context, event: Op) -> Generator:
        if event.type == "invoke" or event.process not in self.open:
            return self
        again = () if event.type == "ok" else (self.open[event.process],)
        open_ops = {process: op for process, op in self.open.items() if process != event.process}
        return _AllOk((*self.waiting, *again), open_ops)


def all_ok(*ops: Op) -> Generator:
    """Each operation again and again, on any free worker, until it completes as `ok`; several at a time."""
    return _AllOk(ops, {})


class _Alongside(NamedTuple):
    """companion runs until main is exhausted."""

    main: Generator
    companion: Generator
    reacts: bool

    def next(self, context: Context) -> Emitted | None:
        emitted = self.main.next(context)
        if emitted is None:
            return None
        op, main = emitted
        if isinstance(op, Op):
            return op, _Alongside(main, self.companion, self.reacts)
        emitted = self.companion.next(context)
        if emitted is None:
            return op, main
        other, companion = emitted
        rest = _Alongside(main, companion, self.reacts)
        return (other, rest) if isinstance(other, Op) else (soonest((op, other)), rest)

    def update(self, context: Context, event: Op) -> Generator:
        if not self.reacts:
            return self
        main, companion = update_each((self.main, self.companion), context, event)
        return self if main is self.main and companion is self.companion else _Alongside(main, companion, True)


def alongside(main: Generator, companion: Generator) -> Generator:
    """main and companion concurrently, main with priority; exhausted when main is."""
    return _Alongside(main, companion, main.reacts or companion.reacts)
