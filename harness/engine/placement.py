"""Generators that depend on workers: which workers run which operations.

    any_of(nemesis(faults), clients(reserve((2, writes), (1, reads), rest=transfers)))

Contains combinators that restrict the view to some workers or have one generator per worker. Does not contain clocks,
random sources or knowledge of workloads.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple

from harness.engine.combinators import any_of
from harness.engine.generator import PENDING, Context, Emitted, Generator, Pending, build, soonest
from harness.model import NEMESIS, BadInput, Op


class _OnWorkers(NamedTuple):
    """inner on these workers, with only their events; Jepsen's on-threads."""

    workers: range
    inner: Generator
    reacts: bool

    def next(self, context: Context) -> Emitted | None:
        view = context.within(self.workers)
        emitted = self.inner.next(view)
        if not view.workers and emitted and emitted[0] == PENDING:
            start, last = context.workers.start, context.workers.stop - 1
            raise BadInput(
                f"concurrency: some operations need worker {self.workers.start}, got only workers {start} to {last}"
            )
        return emitted and (emitted[0], build(_OnWorkers, (self.workers, emitted[1], self.reacts)))

    def update(self, context: Context, event: Op) -> Generator:
        if not self.reacts or context.worker_of(event.process) not in self.workers:
            return self
        inner = self.inner.update(context.within(self.workers), event)
        return self if inner is self.inner else _OnWorkers(self.workers, inner, True)


def _on(workers: range, inner: Generator) -> Generator:
    return _OnWorkers(workers, inner, inner.reacts)


def nemesis(inner: Generator) -> Generator:
    """inner on the nemesis only."""
    return _on(range(NEMESIS, NEMESIS + 1), inner)


def clients(inner: Generator) -> Generator:
    """inner on all workers except the nemesis."""
    return _on(range(sys.maxsize), inner)


def reserve(*shares: tuple[int, Generator], rest: Generator) -> Generator:
    """A number of workers for each generator, in order, and the remaining workers for rest.

    reserve((2, a), (3, b), rest=c): workers 0 and 1 run a, 2 to 4 run b, the others c. next raises BadInput if a
    generator that is not exhausted has no worker.
    """
    start, branches = 0, []
    for count, inner in shares:
        branches.append(_on(range(start, start + count), inner))
        start += count
    return any_of(*branches, _on(range(start, sys.maxsize), rest))


class _Each(NamedTuple):
    """copies maps each worker to the process that its copy started with and the copy, None if exhausted.

    A worker without an entry, or (if per_process) with that of an earlier process, starts a new copy of whole.
    """

    whole: Generator
    per_process: bool
    copies: Mapping[int, tuple[int, Generator | None]]

    @property
    def reacts(self) -> bool:
        return True

    def next(self, context: Context) -> Emitted | None:
        copies = dict(self.copies)
        pending: list[Pending] = []
        for worker in context.free:
            copy = self._copy_of(worker, context)
            emitted = copy and copy.next(context.within(range(worker, worker + 1)))
            copies[worker] = context.process_of(worker), emitted[1] if emitted else None
            if emitted and isinstance(emitted[0], Op):
                return emitted[0], _Each(self.whole, self.per_process, copies)
            if emitted and isinstance(emitted[0], Pending):
                pending.append(emitted[0])
        after = _Each(self.whole, self.per_process, copies)
        if all(after._copy_of(worker, context) is None for worker in context.workers):
            return None
        return soonest(pending), after

    def _copy_of(self, worker: int, context: Context) -> Generator | None:
        process, copy = self.copies.get(worker, (None, self.whole))
        return self.whole if self.per_process and process != context.process_of(worker) else copy

    def update(self, context: Context, event: Op) -> Generator:
        worker = context.worker_of(event.process)
        process, copy = self.copies.get(worker, (None, None))
        if process is None or copy is None or (self.per_process and process != event.process):
            return self
        copy = copy.update(context.within(range(worker, worker + 1)), event)
        return _Each(self.whole, self.per_process, {**self.copies, worker: (process, copy)})


def each_worker(inner: Generator) -> Generator:
    """A copy of inner for each worker in view, Jepsen's each-thread; exhausted when all copies are."""
    return _Each(inner, per_process=False, copies={})


def each_process(inner: Generator) -> Generator:
    """A copy of inner for each process: after a crash, the worker's new process starts a new copy."""
    return _Each(inner, per_process=True, copies={})
