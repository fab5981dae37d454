"""Runs a generator on virtual time: the interpreter's loop without asyncio, for tests.

A simulated system says of each invocation how long it takes and how it ends. The result is the whole history.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace

from harness.engine.generator import Context, Generator, Pending
from harness.engine.randomness import draw
from harness.model import NEMESIS, Op

System = Callable[[Op], tuple[int, Op]]
"""Of an invocation: its latency in nanoseconds, and its completion."""

LATENCY_NS = 10


def perfect(op: Op) -> tuple[int, Op]:
    """Every operation succeeds after 10 ns."""
    return LATENCY_NS, op.ok()


def crashing(seed: int) -> System:
    """Of three operations one succeeds, one fails and one crashes, in 1 to 20 ns, drawn from the seed and the op."""

    def system(op: Op) -> tuple[int, Op]:
        drawn, _ = draw(seed ^ hash((op.process, op.time_ns)))
        ends = (op.ok(), op.fail("refused"), op.info("no answer"))
        return 1 + drawn % 20, ends[drawn // 32 % 3]

    return system


class Simulation:
    """One run; ends when the generator is exhausted and nothing is open, or after max_rows rows."""

    def __init__(self, generator: Generator, concurrency: int, system: System) -> None:
        self.generator = generator
        self.concurrency = concurrency
        self.system = system
        self.time_ns = 0
        self.free = list(range(NEMESIS, concurrency))
        self.processes = list(range(concurrency))
        self.ends: list[tuple[int, int, Op]] = []
        self.history: list[Op] = []

    def run(self, max_rows: int) -> list[Op]:
        exhausted = False
        while not exhausted or self.ends:
            step = None if exhausted else self.generator.next(self.context())
            exhausted = step is None or len(self.history) >= max_rows
            if step is not None:
                self.advance(*step)
            elif self.ends:
                self.pass_time(None)
        return self.history

    def advance(self, what: Op | Pending, generator: Generator) -> None:
        self.generator = generator
        if isinstance(what, Op):
            self.start(what)
        else:
            self.pass_time(what.until_ns)

    def context(self) -> Context:
        workers = range(NEMESIS, self.concurrency)
        return Context(self.time_ns, self.concurrency, workers, tuple(self.free), tuple(self.processes))

    def start(self, op: Op) -> None:
        op = replace(op, time_ns=self.time_ns)
        self.history.append(op)
        if op.type == "info":
            return
        context = self.context()
        assert context.process_of(context.worker_of(op.process)) == op.process, f"{op} is of a process that is over"
        self.free.remove(context.worker_of(op.process))
        self.generator = self.generator.update(context, op)
        latency_ns, completion = self.system(op)
        heapq.heappush(self.ends, (self.time_ns + latency_ns, len(self.history), completion))

    def pass_time(self, until_ns: int | None) -> None:
        """To the next completion, or to until_ns if that comes first."""
        if self.ends and (until_ns is None or self.ends[0][0] <= until_ns):
            self.time_ns, _, completion = heapq.heappop(self.ends)
            self.finish(replace(completion, time_ns=self.time_ns))
        else:
            assert until_ns is not None, "the generator waits, and nothing can come"
            assert until_ns > self.time_ns, f"asked to wait until {until_ns}, which is past"
            self.time_ns = until_ns

    def finish(self, completion: Op) -> None:
        self.history.append(completion)
        worker = self.context().worker_of(completion.process)
        if completion.type == "info" and worker != NEMESIS:
            self.processes[worker] += self.concurrency
        self.free.append(worker)
        self.generator = self.generator.update(self.context(), completion)


def simulate(generator: Generator, concurrency: int = 2, system: System = perfect, max_rows: int = 5000) -> list[Op]:
    """The history of a generator's run."""
    return Simulation(generator, concurrency, system).run(max_rows)


def starts(history: list[Op]) -> list[tuple[int, int, str]]:
    """Of each row that a generator emitted: its time, process and f (its value, for a mark)."""
    emitted = [op for op in history if op.type == "invoke" or op.f == "mark"]
    return [(op.time_ns, op.process, op.value if op.f == "mark" else op.f) for op in emitted]
