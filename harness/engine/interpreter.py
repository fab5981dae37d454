"""The interpreter: takes operations from the generator, dispatches them to workers, and records the history.

One loop: ask the generator for operations and dispatch them until there is none now; wait for a completion or until
the time of a Pending. A worker that has completed an operation asks for one itself, and continues with it at once if
it is its own. An invocation is recorded before it is dispatched, a completion as soon as it arrives; the generator is
updated with both.

- After `ok` or `fail`, a worker keeps its process. After `info`, the process has crashed and the worker continues as
  process + concurrency, with a new session. An exception of a session, or no completion within op_timeout_ms, is an
  `info`; if a session cannot be opened, the operation is a `fail`.
- Nemesis operations are recorded as two `info` rows, at invocation and completion; the nemesis keeps its process.
- When the generator is exhausted or stop is set, open operations have drain_timeout_ms to complete; those still open
  are then recorded as `info`. A nemesis operation has a deadline of its own, so it has all its time unless stop is
  set. If the generator raises, which is a defect, open operations are recorded at once, and the error propagates.

Contains this loop. Does not contain sessions (worker.py), the meaning of operations, or storage.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Protocol

from harness.engine.clock import Clock
from harness.engine.deadline import Deadline, enforce
from harness.engine.generator import Context, Generator, build
from harness.engine.worker import Worker, close_ignoring_errors
from harness.model import NEMESIS, Op
from harness.model.session import OpenSession, Session


class HistoryRecorder(Protocol):
    """Stores the history."""

    def record(self, op: Op) -> Op:
        """Store an operation; returns it with its index and time."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of client operations by outcome; abandoned counts the infos that were still open at the end."""

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
    recorder: HistoryRecorder,
    clock: Clock,
    stop: asyncio.Event | None = None,
    op_timeout_ms: int | None = None,
    drain_timeout_ms: int = 10_000,
) -> Tally:
    """Run a generator until it is exhausted or stop is set, with `concurrency` client workers and the nemesis.

    A generator outside `clients` may emit operations for the nemesis. Closes the sessions that it opened, but not the
    nemesis and the recorder. Propagates errors of the recorder.
    """
    timeout_s = inf if op_timeout_ms is None else op_timeout_ms / 1000
    deadlines = [Deadline(timeout_s) for _ in range(concurrency)]
    run = _Run(generator, concurrency, recorder, clock, stop or asyncio.Event())
    run.workers = {n: Worker(n, open_session, deadline, run.completed) for n, deadline in enumerate(deadlines)}
    if nemesis is not None:
        run.workers[NEMESIS] = Worker(NEMESIS, None, nullcontext(), run.completed, nemesis)
    run.free = sorted(run.workers)
    run.view = range(run.free[0], concurrency)
    async with _tasks(
        run.wake_on_stop(), enforce(deadlines, timeout_s), *(worker.run() for worker in run.workers.values())
    ):
        try:
            await run.generate()
            await run.drain(drain_timeout_ms)
        finally:
            try:
                run.abandon()
            finally:
                await run.close_sessions()
    return Tally(run.outcomes["ok"], run.outcomes["fail"], run.outcomes["info"], run.outcomes["abandoned"])


@asynccontextmanager
async def _tasks(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run the coroutines until the end of the block."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Run:
    """The loop's state. Each worker is in free or open; until_ns is that of the last Pending."""

    def __init__(
        self, generator: Generator, concurrency: int, recorder: HistoryRecorder, clock: Clock, stop: asyncio.Event
    ) -> None:
        self.generator = generator
        self.concurrency = concurrency
        self.recorder = recorder
        self.clock = clock
        self.stop = stop
        self.workers: dict[int, Worker] = {}
        self.free: list[int] = []
        self.view = range(0)
        self.reacts = generator.reacts
        self.open: dict[int, Op] = {}
        self.processes = tuple(range(concurrency))
        self.generating = True
        self.until_ns: int | None = None
        self.failure: Exception | None = None
        self.wake = asyncio.Event()
        self.outcomes: Counter[str] = Counter()

    async def generate(self) -> None:
        """Dispatch operations until the generator is exhausted or stop is set."""
        while True:
            while (worker := self._start_next()) is not None:
                self._dispatch(worker)
            if not self.generating:
                return
            await self._wait(self.until_ns)

    async def drain(self, timeout_ms: int) -> None:
        """Wait until no operation is open: for clients at most timeout_ms, for the nemesis until stop is set."""
        deadline_ns = self.clock.now_ns() + timeout_ms * 1_000_000
        while self.open:
            is_story = NEMESIS in self.open and not self.stop.is_set()
            if not is_story and self.clock.now_ns() >= deadline_ns:
                return
            await self._wait(None if is_story else deadline_ns)

    def abandon(self) -> None:
        """Record open operations as `info`."""
        self.generating = False
        for worker, op in list(self.open.items()):
            self.outcomes["abandoned"] += worker != NEMESIS
            self._complete(worker, op.info("still open when the run ended"))

    async def close_sessions(self) -> None:
        """Close all client sessions."""
        clients = [worker for number, worker in self.workers.items() if number != NEMESIS]
        await asyncio.gather(*(close_ignoring_errors(client.session) for client in clients if client.session))

    def completed(self, worker: int, completion: Op) -> Op | None:
        """Process a completion; workers call this. Returns an operation that the worker has to invoke next."""
        if worker not in self.open:
            return None  # abandoned
        self.wake.set()
        try:
            self._complete(worker, completion)
            started = self._start_next()
        # A defect, or a full disk. It is the loop that has to end, not the worker.
        except Exception as error:  # noqa: BLE001
            self.failure, self.generating = error, False
            return None
        if started is None:
            return None
        # After an info the worker has another process, and has to close its session first.
        if self.open[started].process == completion.process:
            return self.open[started]
        self._dispatch(started)
        return None

    async def wake_on_stop(self) -> None:
        await self.stop.wait()
        self.wake.set()

    def _start_next(self) -> int | None:
        """Record the invocation of the next operation, and return its worker; None if there is none now.

        Ends generating if there will be none later either.
        """
        while self.generating and not self.stop.is_set():
            context = self._context(self.clock.now_ns())
            emitted = self.generator.next(context)
            if emitted is None:
                break
            op, self.generator = emitted
            if not isinstance(op, Op):
                assert self.open or op.until_ns is not None, "the generator is pending, but no operation is open"
                self.until_ns = op.until_ns
                return None
            if op.type == "info":
                self.recorder.record(op)
                continue
            worker = context.worker_of(op.process)
            self.free.remove(worker)
            self.recorder.record(replace(op, type="info") if worker == NEMESIS else op)
            self.open[worker] = op
            if self.reacts:
                self.generator = self.generator.update(context, op)
            return worker
        self.generating = False
        return None

    def _dispatch(self, worker: int) -> None:
        self.workers[worker].inbox.set_result(self.open[worker])

    def _context(self, time_ns: int) -> Context:
        return build(Context, (time_ns, self.concurrency, self.view, tuple(self.free), self.processes))

    async def _wait(self, until_ns: int | None) -> None:
        """Wait until an operation completes, stop is set, or run time reaches until_ns. Raises a worker's failure."""
        self.wake.clear()
        if until_ns is None:
            await self.wake.wait()
        else:
            wait_s = max(0, until_ns - self.clock.now_ns()) / 1_000_000_000
            timer = asyncio.get_running_loop().call_later(wait_s, self.wake.set)
            await self.wake.wait()
            timer.cancel()
        if self.failure:
            raise self.failure

    def _complete(self, worker: int, completion: Op) -> None:
        op = self.open.pop(worker)
        assert completion.type != "invoke", f"the session of worker {worker} completed {op} with an invocation"
        assert completion.process == op.process, f"the session of worker {worker} completed {op} for another process"
        if worker == NEMESIS:
            completion = replace(completion, type="info")
        else:
            self.outcomes[completion.type] += 1
            if completion.type == "info":
                self._assign_new_process(worker)
        self.free.append(worker)
        recorded = self.recorder.record(completion)
        if self.reacts:
            self.generator = self.generator.update(self._context(recorded.time_ns), recorded)

    def _assign_new_process(self, worker: int) -> None:
        processes = list(self.processes)
        processes[worker] += self.concurrency
        self.processes = tuple(processes)
