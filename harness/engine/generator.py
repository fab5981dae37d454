"""What a run does next: generators are immutable values that are asked for one operation at a time.

A generator is asked with a Context (what time it is, which workers are free) and answers with an operation to start
now, or with Pending (nothing now), together with the generator that takes its place; or with None when it is
exhausted. It is told of every invocation and completion through update. Nothing is ever mutated and nothing waits,
so that a generator can be run on virtual time, stored, compared and asked "what if" at no cost.

Workers are numbered from 0 and the nemesis is one more, NEMESIS. A worker runs as one process at a time; when an
operation of process p ends in `info`, the worker goes on as process p + concurrency.

    writes = from_function(lambda number, draw: Op("invoke", "write", value=number), seed=7)
    what, rest = writes.next(context)

What may live here: the protocol and the generators that emit operations by themselves. What may not: clocks, random
sources, asyncio, and combinators (combinators.py, pacing.py, placement.py, keys.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from harness.engine.randomness import draw
from harness.model import NEMESIS, Op


@dataclass(frozen=True, slots=True)
class Pending:
    """Nothing to start now: ask again after the next event, or at until_ns (run time) if that comes first."""

    until_ns: int | None = None


PENDING: Final = Pending()


@dataclass(frozen=True, slots=True)
class Context:
    """What a generator may know when it is asked.

    workers is the range of workers this generator may use, and free those of them that have no operation open, the
    longest idle first. processes[worker] is the process a worker runs as; concurrency counts all client workers,
    in view or not.
    """

    time_ns: int
    concurrency: int
    workers: range
    free: tuple[int, ...]
    processes: tuple[int, ...]

    def process_of(self, worker: int) -> int:
        """The process that a worker runs as now."""
        return NEMESIS if worker == NEMESIS else self.processes[worker]

    def worker_of(self, process: int) -> int:
        """The worker that runs, or once ran, a process."""
        return NEMESIS if process == NEMESIS else process % self.concurrency

    def all_free(self) -> bool:
        """Whether no worker in view has an operation open."""
        return len(self.free) == len(self.workers)

    def within(self, workers: range) -> Context:
        """The same context with only these workers in view."""
        start, stop = max(self.workers.start, workers.start), min(self.workers.stop, workers.stop)
        view = range(start, max(start, stop))
        if view == self.workers:
            return self
        free = tuple([worker for worker in self.free if worker in view])
        return Context(self.time_ns, self.concurrency, view, free, self.processes)


Turn = tuple[Op | Pending, "Generator"]


class Generator(Protocol):
    """What next and update promise; every implementation is a frozen value."""

    def next(self, context: Context, /) -> Turn | None:
        """The operation to start now, or Pending, with the generator to ask from then on; None when exhausted.

        The operation's process is one that a free worker in view runs as, except that a row of type `info` is
        recorded as it is and needs no worker.
        """

    def update(self, context: Context, event: Op, /) -> Generator:
        """The generator after an event: an operation of type `invoke` has begun, any other type has ended."""


def assign(template: Op, context: Context) -> Op:
    """The template as an operation of the longest idle worker."""
    process = context.process_of(context.free[0])
    return Op(template.type, template.f, process, template.key, template.value, template.node)


@dataclass(frozen=True, slots=True)
class _Fixed:
    """ops[position:] are still to come."""

    ops: tuple[Op, ...]
    position: int = 0

    def next(self, context: Context) -> Turn | None:
        if self.position == len(self.ops):
            return None
        if not context.free:
            return PENDING, self
        return assign(self.ops[self.position], context), _Fixed(self.ops, self.position + 1)

    def update(self, _context: Context, _event: Op) -> Generator:
        return self


def fixed(*ops: Op) -> Generator:
    """These operations, each once, in this order, whoever is free."""
    return _Fixed(ops)


OpFunction = Callable[[int, int], Op]


@dataclass(frozen=True, slots=True)
class _FromFunction:
    """number counts what was emitted so far; seed is where the next draw comes from."""

    function: OpFunction
    seed: int
    number: int = 0

    def next(self, context: Context) -> Turn | None:
        if not context.free:
            return PENDING, self
        drawn, seed = draw(self.seed)
        op = assign(self.function(self.number, drawn), context)
        return op, _FromFunction(self.function, seed, self.number + 1)

    def update(self, _context: Context, _event: Op) -> Generator:
        return self


def from_function(function: OpFunction, *, seed: int) -> Generator:
    """Without end: function(number, drawn), which must be pure, of 0, 1, 2, … and a random 64-bit number each."""
    return _FromFunction(function, seed)


@dataclass(frozen=True, slots=True)
class _Marks:
    """Rows that go into the history as they are, in order."""

    rows: tuple[Op, ...]

    def next(self, _context: Context) -> Turn | None:
        return (self.rows[0], _Marks(self.rows[1:])) if self.rows else None

    def update(self, _context: Context, _event: Op) -> Generator:
        return self


def mark(text: str) -> Generator:
    """One row in the history that says text, so that a reader finds the place; nothing is asked of the system."""
    return _Marks((Op("info", "mark", NEMESIS, value=text),))


def soonest(waits: Iterable[Pending]) -> Pending:
    """The wait that covers several: until the first of their times."""
    times = [wait.until_ns for wait in waits if wait.until_ns is not None]
    return Pending(min(times)) if times else PENDING
