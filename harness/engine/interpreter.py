"""The interpreter: asks the generator, dispatches to the workers, records everything.

It is one loop: take in completions; ask the generator; start the operation, or wait for a completion or the time the
generator named. An invocation is recorded before its worker hears of it, a completion as soon as it comes, and both
are told to the generator.

- A completion `ok` or `fail` leaves the worker its process. After an `info` the worker goes on as
  process + concurrency, with a new session. A session that raises, or exceeds op_timeout_ms, is taken for `info`;
  one that cannot be opened makes its operation `fail`.
- The nemesis's deeds are rows of type `info`, one when a deed begins and one when it is done; its process stays.
- When the generator is exhausted or stop is set, open operations get drain_timeout_ms to end; what is open then is
  recorded as `info`. The same holds if the generator itself raises, which is a defect and goes on to the caller.

What may live here: this loop. What may not: what an operation means, what is done about it (worker.py), disks.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harness.engine.clock import Clock
from harness.engine.generator import Context, Generator, Pending
from harness.engine.worker import Worker, close_quietly
from harness.model import NEMESIS, Op
from harness.model.session import OpenSession, Session


class Journal(Protocol):
    """Where history goes."""

    def record(self, op: Op) -> Op:
        """Store the operation; returns it with its index and time."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many client operations ended how; abandoned of the infos were still open when the run ended."""

    ok: int = 0
    fail: int = 0
    info: int = 0
    abandoned: int = 0


async def interpret(
    generator: Generator,
    *,
    concurrency: int,
    open_session: OpenSession,
    nemesis: Session | None,
    recorder: Journal,
    clock: Clock,
    stop: asyncio.Event | None = None,
    op_timeout_ms: int | None = None,
    drain_timeout_ms: int = 10_000,
) -> Tally:
    """Run a generator to its end, or until stop is set, with `concurrency` client workers and the nemesis.

    A generator that is not narrowed by `clients` may hand operations to the nemesis. Closes the sessions it opened;
    the nemesis and the recorder stay the caller's. Raises what the recorder raises.
    """
    timeout_s = None if op_timeout_ms is None else op_timeout_ms / 1000
    run = _Run(generator, concurrency, recorder, clock, stop or asyncio.Event())
    run.workers = {n: Worker(n, open_session, timeout_s, run.completed) for n in range(concurrency)}
    if nemesis is not None:
        run.workers[NEMESIS] = Worker(NEMESIS, None, None, run.completed, nemesis)
    run.free = sorted(run.workers)
    async with _tasks(run.wake_on_stop(), *(worker.run() for worker in run.workers.values())):
        try:
            await run.generate()
            await run.drain(drain_timeout_ms)
        finally:
            try:
                run.abandon()
            finally:
                await run.close_sessions()
    return Tally(run.ended["ok"], run.ended["fail"], run.ended["info"], run.ended["abandoned"])


@asynccontextmanager
async def _tasks(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run the coroutines for as long as the body takes."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Run:
    """The loop's state. free and open divide the workers between them; completions wait for the loop."""

    def __init__(
        self, generator: Generator, concurrency: int, journal: Journal, clock: Clock, stop: asyncio.Event
    ) -> None:
        self.generator = generator
        self.concurrency = concurrency
        self.journal = journal
        self.clock = clock
        self.stop = stop
        self.workers: dict[int, Worker] = {}
        self.free: list[int] = []
        self.open: dict[int, Op] = {}
        self.processes = tuple(range(concurrency))
        self.completions: deque[tuple[int, Op]] = deque()
        self.wake = asyncio.Event()
        self.ended: Counter[str] = Counter()

    async def generate(self) -> None:
        """Until the generator is exhausted or stop is set."""
        while not self.stop.is_set():
            self._take_in()
            step = self.generator.next(self._context())
            if step is None:
                return
            what, self.generator = step
            if isinstance(what, Pending):
                assert self.open or what.until_ns is not None, "the generator waits, and nothing can come"
                await self._wait(what.until_ns)
            else:
                self._start(what)

    async def drain(self, timeout_ms: int) -> None:
        """Until no operation is open or the time is over."""
        deadline_ns = self.clock.now_ns() + timeout_ms * 1_000_000
        self._take_in()
        while self.open and self.clock.now_ns() < deadline_ns:
            await self._wait(deadline_ns)
            self._take_in()

    def abandon(self) -> None:
        """Record what is open as unknown."""
        self._take_in()
        for worker, op in list(self.open.items()):
            self.ended["abandoned"] += worker != NEMESIS
            self._finish(worker, op.info("still open when the run ended"))

    async def close_sessions(self) -> None:
        """Close every session that was opened here."""
        clients = [worker for number, worker in self.workers.items() if number != NEMESIS]
        await asyncio.gather(*(close_quietly(client.session) for client in clients if client.session))

    def completed(self, worker: int, completion: Op) -> None:
        """What workers call."""
        self.completions.append((worker, completion))
        self.wake.set()

    async def wake_on_stop(self) -> None:
        await self.stop.wait()
        self.wake.set()

    def _context(self) -> Context:
        first = NEMESIS if NEMESIS in self.workers else 0
        workers = range(first, self.concurrency)
        return Context(self.clock.now_ns(), self.concurrency, workers, tuple(self.free), self.processes)

    async def _wait(self, until_ns: int | None) -> None:
        """Until a worker completes, stop is set, or the run's clock shows until_ns."""
        self.wake.clear()
        if until_ns is None:
            await self.wake.wait()
            return
        wait_s = max(0, until_ns - self.clock.now_ns()) / 1_000_000_000
        timer = asyncio.get_running_loop().call_later(wait_s, self.wake.set)
        await self.wake.wait()
        timer.cancel()

    def _start(self, op: Op) -> None:
        if op.type == "info":
            self.journal.record(op)
            return
        context = self._context()
        worker = context.worker_of(op.process)
        self.free.remove(worker)
        self.journal.record(replace(op, type="info") if worker == NEMESIS else op)
        self.open[worker] = op
        self.generator = self.generator.update(context, op)
        self.workers[worker].inbox.put_nowait(op)

    def _take_in(self) -> None:
        while self.completions:
            self._finish(*self.completions.popleft())

    def _finish(self, worker: int, completion: Op) -> None:
        op = self.open.pop(worker)
        assert completion.type != "invoke", f"the session of worker {worker} answered {op} with an invocation"
        assert completion.process == op.process, f"the session of worker {worker} answered {op} for another process"
        if worker == NEMESIS:
            completion = replace(completion, type="info")
        else:
            self.ended[completion.type] += 1
            if completion.type == "info":
                self._renumber(worker)
        self.free.append(worker)
        recorded = self.journal.record(completion)
        self.generator = self.generator.update(self._context(), recorded)

    def _renumber(self, worker: int) -> None:
        processes = list(self.processes)
        processes[worker] += self.concurrency
        self.processes = tuple(processes)
