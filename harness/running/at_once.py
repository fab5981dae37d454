"""Carries out several runs at a time, each by a controller of its own, as cores and memory allow.

    carry_out_all(runs, None, on_event, after_loads=start_spark)

An interrupt, and the failure of a run, end all controllers in good order; what they recorded stays.

Contains the threads and the choice of how many. Does not contain what a run does.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from harness import plugins
from harness.model.progress import Event, Leadership, NemesisEvent, OnEvent, Phase, RunStarted
from harness.model.systems import NodeNeeds
from harness.planning.plan import Plan
from harness.running.controller_process import carry_out
from results.store import RunDirectory

MEMORY_SHARE = 0.7
"""The share of the available memory that nodes may take; Spark and the page cache take the rest."""


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A run that has not begun: its plan, and what creates its directory. alone: no other may take place."""

    plan: Plan
    begin: Callable[[OnEvent], RunDirectory]
    alone: bool = False


def cost_of(plan: Plan, machine: NodeNeeds) -> float:
    """The share of a machine that a run needs, 1 for all of it: of its cores or of its memory, whichever is larger."""
    needs = plugins.system(plan.system)[0].node_needs
    return plan.nodes * max(needs.cores / machine.cores, needs.memory_mib / machine.memory_mib)


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
    capacity = 1.0 if at_once is None else float(at_once)
    waiting = deque((run, _share(run, at_once, capacity)) for run in runs)
    is_single = all(share > capacity / 2 for _, share in waiting) or len(runs) == 1
    report = on_event if is_single else _one_at_a_time(on_event)
    controllers, loads = _Controllers(), _Countdown(len(runs), after_loads)

    def carry_out_one(run: PendingRun) -> None:
        directory = run.begin(report)
        events = report if is_single else labelled(f"{run.plan.name} {directory.name}", report)
        events = at_end_of_load(events, loads.count)
        carry_out(run.plan, directory, events, controllers.add, lambda: controllers.are_stopped)

    running: dict[Future[None], float] = {}
    with ThreadPoolExecutor(max_workers=len(runs)) as pool:
        try:
            while waiting or running:
                while waiting and sum(running.values()) + waiting[0][1] <= capacity + 1e-9:
                    run, share = waiting.popleft()
                    running[pool.submit(carry_out_one, run)] = share
                for ended in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[ended]
                    ended.result()
        finally:
            controllers.stop()  # those that still run: after an interrupt, or if another run failed


def _share(run: PendingRun, at_once: int | None, capacity: float) -> float:
    """How much of the capacity a run takes: a share of the machine, or one of `at_once`."""
    if run.alone:
        return capacity
    return min(capacity, cost_of(run.plan, machine()) if at_once is None else 1.0)


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
