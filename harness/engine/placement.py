"""Who runs what: generators that look at the workers' numbers.

    any_of(nemesis(faults), clients(reserve((2, writes), (1, reads), rest=transfers)))

What may live here: combinators that narrow the view to a range of workers or keep one generator a worker. What may
not: clocks, random sources, anything that knows a workload.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from harness.engine.combinators import any_of
from harness.engine.generator import PENDING, Context, Generator, Pending, Turn, soonest
from harness.model import NEMESIS, BadInput, Op


@dataclass(frozen=True, slots=True)
class _OnWorkers:
    """inner sees only these workers and only their events."""

    workers: range
    inner: Generator

    def next(self, context: Context) -> Turn | None:
        view = context.within(self.workers)
        step = self.inner.next(view)
        if step and step[0] == PENDING and not view.workers:
            start, last = context.workers.start, context.workers.stop - 1
            raise BadInput(
                f"concurrency: operations wait for worker {self.workers.start}, got workers {start} to {last}"
            )
        return step and (step[0], _OnWorkers(self.workers, step[1]))

    def update(self, context: Context, event: Op) -> Generator:
        if context.worker_of(event.process) not in self.workers:
            return self
        return _OnWorkers(self.workers, self.inner.update(context.within(self.workers), event))


def nemesis(inner: Generator) -> Generator:
    """inner on the nemesis alone."""
    return _OnWorkers(range(NEMESIS, NEMESIS + 1), inner)


def clients(inner: Generator) -> Generator:
    """inner on every worker but the nemesis."""
    return _OnWorkers(range(sys.maxsize), inner)


def reserve(*shares: tuple[int, Generator], rest: Generator) -> Generator:
    """The first workers for the first share's generator, the next for the next, and what is left for rest.

    Raises BadInput when asked, if a share that has something to do is left without a worker.

    reserve((2, a), (3, b), rest=c): workers 0 and 1 run a, 2 to 4 run b, the others c.
    """
    start, branches = 0, []
    for count, inner in shares:
        branches.append(_OnWorkers(range(start, start + count), inner))
        start += count
    return any_of(*branches, _OnWorkers(range(start, sys.maxsize), rest))


@dataclass(frozen=True, slots=True)
class _Each:
    """copies holds, by worker, the process its copy began with and the copy, None once exhausted.

    A worker without an entry, or (where renewed) with that of an earlier process, has whole before it.
    """

    whole: Generator
    renewed: bool
    copies: Mapping[int, tuple[int, Generator | None]]

    def next(self, context: Context) -> Turn | None:
        copies = dict(self.copies)
        waits: list[Pending] = []
        for worker in context.free:
            copy = self._copy_of(worker, context)
            step = copy and copy.next(context.within(range(worker, worker + 1)))
            copies[worker] = context.process_of(worker), step[1] if step else None
            if step and isinstance(step[0], Op):
                return step[0], _Each(self.whole, self.renewed, copies)
            if step and isinstance(step[0], Pending):
                waits.append(step[0])
        after = _Each(self.whole, self.renewed, copies)
        if all(after._copy_of(worker, context) is None for worker in context.workers):
            return None
        return soonest(waits), after

    def _copy_of(self, worker: int, context: Context) -> Generator | None:
        process, copy = self.copies.get(worker, (None, self.whole))
        return self.whole if self.renewed and process != context.process_of(worker) else copy

    def update(self, context: Context, event: Op) -> Generator:
        worker = context.worker_of(event.process)
        process, copy = self.copies.get(worker, (None, None))
        if process is None or copy is None or (self.renewed and process != event.process):
            return self
        copy = copy.update(context.within(range(worker, worker + 1)), event)
        return _Each(self.whole, self.renewed, {**self.copies, worker: (process, copy)})


def each_worker(inner: Generator) -> Generator:
    """A copy of inner for each worker in view; exhausted when every copy is."""
    return _Each(inner, renewed=False, copies={})


def each_process(inner: Generator) -> Generator:
    """A copy of inner for each process: a worker whose process crashed begins inner again."""
    return _Each(inner, renewed=True, copies={})
