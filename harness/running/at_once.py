"""Carries out several runs at a time, each by a controller of its own, as cores and memory allow.

    carry_out_all(runs, None, on_event, after_loads=start_spark)
    for directory in carried_out(runs, None, on_event): ...     # each as soon as it has ended
    for ended in ended_together(runs, None, on_event, keep_going=True, most=8): ...     # lists, also of failed ones

An interrupt, and the failure of a run unless the others keep going, end all controllers in good order; what they
recorded stays.

Contains the threads and the choice of how many. Does not contain what a run does.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue

from harness import plugins
from harness.model import SplitbrainError
from harness.model.progress import Event, Leadership, NemesisEvent, OnEvent, Phase, RunStarted
from harness.model.systems import NodeNeeds
from harness.planning.plan import Plan
from harness.running.controller_process import carry_out
from results.store import RunDirectory

AT_ONCE_MAX = 64
UNREAD_MAX = 4
"""So many runs may have ended that were not taken yet; more would be outdated results, on disks that fill."""
RATE_INCLUDED = 100
OPERATION_CORES = 0.001
"""What the cores of nodes (NodeNeeds) include: this many operations a second; and what each further one takes. Measured
with the reference system: 0.25 ms of the clients, 0.39 ms of the leader, and 0.18 ms of each follower."""
MEMORY_SHARE = 0.7
"""The share of the available memory that nodes may take; Spark and the page cache take the rest."""


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A run that has not begun: its plan, and what creates its directory. alone: no other may take place.

    begin returns the directory, and the plan as it is carried out there. A run that has not ended deadline_seconds
    after its controller started is ended.
    """

    plan: Plan
    begin: Callable[[OnEvent], tuple[RunDirectory, Plan]]
    alone: bool = False
    deadline_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has ended: its directory, None if none could be created, and what it failed with, if it failed."""

    run: PendingRun
    directory: RunDirectory | None
    error: SplitbrainError | OSError | None = None


def cost_of(plan: Plan, machine: NodeNeeds) -> float:
    """The share of a machine that a run needs, 1 for all of it: of its cores or of its memory, whichever is larger."""
    needs = plugins.system(plan.system)[0].node_needs
    cores = plan.nodes * needs.cores + OPERATION_CORES * max(0.0, plan.rate_per_second - RATE_INCLUDED)
    return max(cores / machine.cores, plan.nodes * needs.memory_mib / machine.memory_mib)


def machine() -> NodeNeeds:
    """The cores that this process may use, and the memory that nodes may take of what is available."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available_mib = int(fields["MemAvailable"].removesuffix("kB")) / 1024
    return NodeNeeds(len(os.sched_getaffinity(0)), max(1, MEMORY_SHARE * available_mib))


def carry_out_all(
    runs: Sequence[PendingRun], at_once: int | None, on_event: OnEvent, after_loads: Callable[[], object]
) -> None:
    """Carry out the runs in order, several at a time: at_once, or as many as the sum of their costs allows.

    after_loads is called when the load of every run is over. Raises what the first run failed with that failed, after
    all others have ended.
    """
    capacity = Capacity.of(at_once)
    is_single = all(capacity.share_of(run) > capacity.total / 2 for run in runs) or len(runs) == 1
    loads = _Countdown(len(runs), after_loads)
    for _ in carried_out(runs, at_once, on_event, loads.count, is_single):
        pass


def carried_out(
    runs: Iterable[PendingRun],
    at_once: int | None,
    on_event: OnEvent,
    after_load: Callable[[], object] = lambda: None,
    is_single: bool = False,
) -> Generator[RunDirectory, None, None]:
    """Carry out the runs as ended_together does, and yield the directory of each when it has ended.

    Raises what the first run failed with.
    """
    with closing(ended_together(runs, at_once, on_event, after_load, is_single, most=1)) as together:
        for ended in together:
            for each in ended:
                assert each.directory is not None, "a run that failed has raised its error"
                yield each.directory


def ended_together(
    runs: Iterable[PendingRun],
    at_once: int | None,
    on_event: OnEvent,
    after_load: Callable[[], object] = lambda: None,
    is_single: bool = False,
    keep_going: bool = False,
    *,
    most: int,
) -> Generator[list[EndedRun], None, None]:
    """Carry out the runs in order, several at a time, and yield those that have ended, at most so many together.

    keep_going: a run that fails is yielded with its error, and does not end the others. runs are taken when there is
    room for the next one, also while the caller is busy with a run, but no longer when UNREAD_MAX ended runs, or as
    many as `most`, wait for it. after_load is called at the end of each run's load. is_single: only one takes place at
    a time, so its events need no label. Closing the iterator ends the runs that take place.
    """
    capacity, controllers = Capacity.of(at_once), _Controllers()
    report = on_event if is_single else _one_at_a_time(on_event)

    def carry_out_one(run: PendingRun) -> EndedRun:
        directory = None
        try:
            directory, plan = run.begin(report)
            events = report if is_single else labelled(f"{plan.name} {directory.name}", report)
            events = at_end_of_load(events, after_load)
            carry_out(plan, directory, events, controllers.add, lambda: controllers.are_stopped, run.deadline_seconds)
        except (SplitbrainError, OSError) as error:
            if not keep_going:
                raise
            return EndedRun(run, directory, error)
        return EndedRun(run, directory)

    with ThreadPoolExecutor(max_workers=AT_ONCE_MAX) as pool:
        line = _Line(runs, capacity, lambda run: pool.submit(carry_out_one, run), max(UNREAD_MAX, most))
        try:
            while ended := line.next_ended(most):
                yield [run.result() for run in ended]
        finally:
            line.close()
            controllers.stop()  # those that still run: after an interrupt, or if another run failed


class _Line:
    """Runs that wait, take place and have ended: each begins as soon as there is room for it, from any thread."""

    def __init__(
        self,
        runs: Iterable[PendingRun],
        capacity: Capacity,
        begin: Callable[[PendingRun], Future[EndedRun]],
        unread_max: int,
    ) -> None:
        self._waiting = iter(runs)
        self._unread_max = unread_max
        self._capacity, self._begin = capacity, begin
        self._following = next(self._waiting, None)
        self._running: dict[Future[EndedRun], float] = {}
        self._ended: SimpleQueue[Future[EndedRun]] = SimpleQueue()
        self._lock = threading.RLock()
        self._is_open = True

    def next_ended(self, most: int) -> list[Future[EndedRun]]:
        """Wait for the next run that ends; it, and up to `most` in all that have ended too. None after the last."""
        with self._lock:
            self._fill()
            if not self._running and self._ended.empty():
                return []
        ended = [self._ended.get()]
        while len(ended) < most and not self._ended.empty():
            ended.append(self._ended.get())
        with self._lock:
            self._fill()
        return ended

    def close(self) -> None:
        """Begin no more runs."""
        with self._lock:
            self._is_open = False

    def _has_ended(self, run: Future[EndedRun]) -> None:
        with self._lock:
            del self._running[run]
            self._ended.put(run)
            self._is_open &= run.exception() is None
            self._fill()

    def _fill(self) -> None:
        """Begin as many runs as there is room for; a failure to do so is one more result. The lock is held."""
        try:
            self._begin_those_that_fit()
        except Exception as error:  # noqa: BLE001 - for the caller of next_ended, which need not be this thread's
            failed: Future[EndedRun] = Future()
            failed.set_exception(error)
            self._ended.put(failed)

    def _begin_those_that_fit(self) -> None:
        while (
            self._is_open
            and (run := self._following) is not None
            and self._ended.qsize() < self._unread_max
            and self._capacity.has_room_for(run, self._running.values())
        ):
            future = self._begin(run)
            self._running[future] = self._capacity.share_of(run)
            self._following = None
            future.add_done_callback(self._has_ended)
            self._following = next(self._waiting, None)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the runs share: a number of runs, or this machine if none is given."""

    total: float
    machine: NodeNeeds | None

    @staticmethod
    def of(at_once: int | None) -> Capacity:
        """Room for this many runs; for as many as the machine has, as it is now, if not given."""
        return Capacity(1.0, machine()) if at_once is None else Capacity(at_once, None)

    def share_of(self, run: PendingRun) -> float:
        """How much a run takes."""
        if run.alone:
            return self.total
        return min(self.total, 1.0 if self.machine is None else cost_of(run.plan, self.machine))

    def has_room_for(self, run: PendingRun, taken: Iterable[float]) -> bool:
        """Whether a run fits beside others."""
        return sum(taken) + self.share_of(run) <= self.total + 1e-9


def labelled(label: str, on_event: OnEvent) -> OnEvent:
    """Report the events of one of several runs: those that are a line of their own, with the run's label."""

    def report(event: Event) -> None:
        if isinstance(event, Phase):
            on_event(Phase(f"{label}: {event.text}", "story" if event.stage == "story" else None))
        elif isinstance(event, NemesisEvent):
            on_event(replace(event, text=f"{label}: {event.text}", active=()))
        elif isinstance(event, Leadership):
            on_event(replace(event, run=label))
        elif isinstance(event, RunStarted):
            on_event(event)

    return report


def at_end_of_load(on_event: OnEvent, then: Callable[[], object]) -> OnEvent:
    """Report a run's events, and call `then` once, when its load is over: the final reads and the rest follow."""
    is_over = False

    def report(event: Event) -> None:
        nonlocal is_over
        if not is_over and isinstance(event, Phase) and event.stage in ("final reads", "collection"):
            is_over = True
            then()
        on_event(event)

    return report


class _Countdown:
    """Calls a function at the last of so many calls, from any thread."""

    def __init__(self, calls: int, then: Callable[[], object]) -> None:
        self._left = calls
        self._then = then
        self._lock = threading.Lock()

    def count(self) -> None:
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._then()


def _one_at_a_time(on_event: OnEvent) -> OnEvent:
    """Report events of several threads one at a time."""
    lock = threading.Lock()

    def report(event: Event) -> None:
        with lock:
            on_event(event)

    return report


class _Controllers:
    """The processes of the controllers, to end them together."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._lock = threading.Lock()
        self.are_stopped = False

    def add(self, process: subprocess.Popen[str]) -> None:
        """A controller has started; it ends at once if all are being stopped."""
        with self._lock:
            self._processes.append(process)
            if self.are_stopped:
                _end(process)

    def stop(self) -> None:
        """End every controller in good order, by closing its standard input. Those that have ended are left alone."""
        with self._lock:
            self.are_stopped = True
            for process in self._processes:
                _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
