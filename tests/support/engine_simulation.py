"""Runs a generator on virtual time: the interpreter's loop without asyncio, for tests.

A simulated system defines the latency and completion of each invocation. The result is the history.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace

from harness.engine.generator import Context, Generator, Pending
from harness.engine.randomness import draw
from harness.model import NEMESIS, Op

System = Callable[[Op], tuple[int, Op]]
"""The latency in nanoseconds and the completion of an invocation."""

LATENCY_NS = 10


def perfect(op: Op) -> tuple[int, Op]:
    """Every operation succeeds after 10 ns."""
    return LATENCY_NS, op.ok()


def crashing(seed: int) -> System:
    """A third of the operations succeeds, fails or crashes each, after 1 to 20 ns; random by seed and operation."""

    def system(op: Op) -> tuple[int, Op]:
        number, _ = draw(seed ^ hash((op.process, op.time_ns)))
        outcomes = (op.ok(), op.fail("refused"), op.info("no response"))
        return 1 + number % 20, outcomes[number // 32 % 3]

    return system


class Simulation:
    """One run, until the generator is exhausted and no operation is open, or for max_rows rows."""

    def __init__(self, generator: Generator, concurrency: int, system: System) -> None:
        self.generator = generator
        self.concurrency = concurrency
        self.system = system
        self.time_ns = 0
        self.free = list(range(NEMESIS, concurrency))
        self.processes = list(range(concurrency))
        self.completions: list[tuple[int, int, Op]] = []
        self.history: list[Op] = []

    def run(self, max_rows: int) -> list[Op]:
        exhausted = False
        while not exhausted or self.completions:
            emitted = None if exhausted else self.generator.next(self.context())
            exhausted = emitted is None or len(self.history) >= max_rows
            if emitted is not None:
                self.advance(*emitted)
            elif self.completions:
                self.wait(None)
        return self.history

    def advance(self, op: Op | Pending, generator: Generator) -> None:
        self.generator = generator
        if isinstance(op, Op):
            self.invoke(op)
        else:
            self.wait(op.until_ns)

    def context(self) -> Context:
        workers = range(NEMESIS, self.concurrency)
        return Context(self.time_ns, self.concurrency, workers, tuple(self.free), tuple(self.processes))

    def invoke(self, op: Op) -> None:
        op = replace(op, time_ns=self.time_ns)
        self.history.append(op)
        if op.type == "info":
            return
        context = self.context()
        assert context.process_of(context.worker_of(op.process)) == op.process, f"{op}: its process has crashed"
        self.free.remove(context.worker_of(op.process))
        self.generator = self.generator.update(context, op)
        latency_ns, completion = self.system(op)
        heapq.heappush(self.completions, (self.time_ns + latency_ns, len(self.history), completion))

    def wait(self, until_ns: int | None) -> None:
        """Advance the time to the next completion, or to until_ns if that is earlier."""
        if self.completions and (until_ns is None or self.completions[0][0] <= until_ns):
            self.time_ns, _, completion = heapq.heappop(self.completions)
            self.complete(replace(completion, time_ns=self.time_ns))
        else:
            assert until_ns is not None, "the generator is pending, but no operation is open"
            assert until_ns > self.time_ns, f"pending until {until_ns}, which is in the past"
            self.time_ns = until_ns

    def complete(self, completion: Op) -> None:
        self.history.append(completion)
        worker = self.context().worker_of(completion.process)
        if completion.type == "info" and worker != NEMESIS:
            self.processes[worker] += self.concurrency
        self.free.append(worker)
        self.generator = self.generator.update(self.context(), completion)


def simulate(generator: Generator, concurrency: int = 2, system: System = perfect, max_rows: int = 5000) -> list[Op]:
    """The history of a generator."""
    return Simulation(generator, concurrency, system).run(max_rows)


def starts(history: list[Op]) -> list[tuple[int, int, str]]:
    """The time, process and f (for a mark, its value) of each emitted operation."""
    emitted = [op for op in history if op.type == "invoke" or op.f == "mark"]
    return [(op.time_ns, op.process, op.value if op.f == "mark" else op.f) for op in emitted]
