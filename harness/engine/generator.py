"""Generators: immutable values that emit the operations of a run, one at a time (jepsen.generator).

next takes a Context (the time, the free workers) and returns an operation to start now, or Pending if there is none
now, together with the next state of the generator; or None if it is exhausted. update takes every invocation and
completion and returns the next state. Generators never mutate, block or read clocks, so they can run on virtual time
and be stored and compared.

Workers (Jepsen's threads) are numbered from 0; the nemesis is one more, NEMESIS. A worker runs one process at a time;
when an operation of process p completes as `info`, the worker continues as process p + concurrency.

    writes = from_function(lambda number, draw: Op("invoke", "write", value=number), seed=7)
    op, writes = writes.next(context)

Contains the protocol and the generators that emit operations themselves. Does not contain clocks, random sources,
asyncio or combinators (combinators.py, pacing.py, placement.py, independent.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from harness.engine.randomness import draw
from harness.model import NEMESIS, Op


@dataclass(frozen=True, slots=True)
class Pending:
    """No operation now: call next again after the next event, or at until_ns (run time) if that is earlier."""

    until_ns: int | None = None


PENDING: Final = Pending()

build: Final = tuple.__new__
"""build(Context, (time_ns, …)) is Context(time_ns, …) in half the time, because it calls no Python code."""


class Context(NamedTuple):
    """What a generator may depend on.

    workers are those in view, which the generator may use. idle are all workers without an open operation, the longest
    idle first, and concurrency counts all client workers, both also out of view. processes[worker] is the worker's
    process.
    """

    time_ns: int
    concurrency: int
    workers: range
    idle: tuple[int, ...]
    processes: tuple[int, ...]

    def process_of(self, worker: int) -> int:
        """The current process of a worker."""
        return NEMESIS if worker == NEMESIS else self.processes[worker]

    def worker_of(self, process: int) -> int:
        """The worker that runs or ran a process."""
        return NEMESIS if process == NEMESIS else process % self.concurrency

    @property
    def free(self) -> tuple[int, ...]:
        """The workers in view without an open operation, the longest idle first."""
        return tuple([worker for worker in self.idle if worker in self.workers])

    def free_process(self) -> int | None:
        """The process of the first of the free workers; None if there is none."""
        for worker in self.idle:
            if worker in self.workers:
                return self.process_of(worker)
        return None

    def all_free(self) -> bool:
        """Whether no worker in view has an open operation."""
        return len(self.free) == len(self.workers)

    def within(self, workers: range) -> Context:
        """The same context with only these workers in view."""
        view = self.workers
        start, stop = view.start, view.stop
        if workers.start <= start and stop <= workers.stop:
            return self
        if start < workers.start:
            start = workers.start
        if stop > workers.stop:
            stop = workers.stop
        return build(Context, (self.time_ns, self.concurrency, range(start, stop), self.idle, self.processes))


Emitted = tuple[Op | Pending, "Generator"]
"""An operation or Pending, and the next state of the generator."""


class Generator(Protocol):
    """The protocol of generators; every implementation is an immutable value (a NamedTuple is the fastest to make)."""

    @property
    def reacts(self) -> bool:
        """Whether an event may change this generator or a later state of it. If not, update need not be called."""

    def next(self, context: Context, /) -> Emitted | None:
        """The operation to start now, or Pending, and the next state of the generator; None if exhausted.

        The operation's process is that of a free worker in view. An operation of type `info` needs no worker: it is
        only recorded.
        """

    def update(self, context: Context, event: Op, /) -> Generator:
        """The next state after an event: an invocation (type `invoke`) or a completion (any other type).

        It is self if the event changes nothing, so that nothing around it has to be copied either.
        """


class _Fixed(NamedTuple):
    """ops[position:] are not emitted yet."""

    ops: tuple[Op, ...]
    position: int = 0

    @property
    def reacts(self) -> bool:
        return False

    def next(self, context: Context) -> Emitted | None:
        if self.position == len(self.ops):
            return None
        process = context.free_process()
        if process is None:
            return PENDING, self
        return self.ops[self.position].for_process(process), _Fixed(self.ops, self.position + 1)

    def update(self, _context: Context, _event: Op) -> Generator:
        return self


def fixed(*ops: Op) -> Generator:
    """These operations, each once, in this order, on any free worker."""
    return _Fixed(ops)


OpFunction = Callable[[int, int], Op]


class _FromFunction(NamedTuple):
    """number is the count of emitted operations; seed is that of the next random number."""

    function: OpFunction
    seed: int
    number: int = 0

    @property
    def reacts(self) -> bool:
        return False

    def next(self, context: Context) -> Emitted | None:
        process = context.free_process()
        if process is None:
            return PENDING, self
        random_number, seed = draw(self.seed)
        op = self.function(self.number, random_number).for_process(process)
        return op, build(_FromFunction, (self.function, seed, self.number + 1))

    def update(self, _context: Context, _event: Op) -> Generator:
        return self


def from_function(function: OpFunction, *, seed: int) -> Generator:
    """Infinitely many operations function(number, random_number), for 0, 1, 2, … and 64-bit numbers; must be pure."""
    return _FromFunction(function, seed)


class _Marks(NamedTuple):
    """Rows that are only recorded, in order."""

    rows: tuple[Op, ...]

    @property
    def reacts(self) -> bool:
        return False

    def next(self, _context: Context) -> Emitted | None:
        return (self.rows[0], _Marks(self.rows[1:])) if self.rows else None

    def update(self, _context: Context, _event: Op) -> Generator:
        return self


def mark(text: str) -> Generator:
    """Record a text in the history, like jepsen.generator/log; no operation is invoked."""
    return _Marks((Op("info", "mark", NEMESIS, value=text),))


def update_each(generators: tuple[Generator, ...], context: Context, event: Op) -> tuple[Generator, ...]:
    """The next states of generators after an event; the same tuple if none changes."""
    for position, generator in enumerate(generators):
        updated = generator.update(context, event)
        if updated is not generator:
            rest = [other.update(context, event) for other in generators[position + 1 :]]
            return (*generators[:position], updated, *rest)
    return generators


def soonest(pending: Iterable[Pending]) -> Pending:
    """A Pending until the earliest of these times."""
    times = [each.until_ns for each in pending if each.until_ns is not None]
    return Pending(min(times)) if times else PENDING
