"""Carries out several runs at a time, each by a controller of its own, as cores and memory allow.

    carry_out_all(runs, None, on_event, after_loads=start_spark)

An interrupt, and the failure of a run, end all controllers in good order; what they recorded stays.

Contains the threads and the choice of how many. Does not contain what a run does.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace

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
    """A run that has not begun: its plan, the place that it needs, and the function that creates its directory."""

    plan: Plan
    cost: float
    begin: Callable[[], RunDirectory]


@dataclass(slots=True)
class Capacity:
    """Lets runs begin while the sum of their costs is at most `total`. A run that costs more runs alone."""

    total: float
    used: float = 0.0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, cost: float) -> float:
        """Wait until there is place; returns what was taken."""
        share = min(cost, self.total)
        with self.changed:
            self.changed.wait_for(lambda: self.used + share <= self.total + 1e-9)
            self.used += share
        return share

    def give_back(self, share: float) -> None:
        """End of a run that took this share."""
        with self.changed:
            self.used -= share
            self.changed.notify_all()


def cost_of(plan: Plan, machine: NodeNeeds) -> float:
    """The share of a machine that a run needs, 1 for all of it: of its cores or of its memory, whichever is larger."""
    needs = plugins.system(plan.system)[0].node_needs
    return plan.nodes * max(needs.cores / machine.cores, needs.memory_mib / machine.memory_mib)


def machine() -> NodeNeeds:
    """The cores that this process may use, and the memory that nodes may take of what is available."""
    available_mib = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    return NodeNeeds(len(os.sched_getaffinity(0)), max(1, MEMORY_SHARE * available_mib))


def carry_out_all(
    runs: Sequence[PendingRun], at_once: int | None, on_event: OnEvent, after_loads: Callable[[], object]
) -> None:
    """Carry out the runs in order, several at a time: at_once, or as many as the sum of their costs allows.

    after_loads is called when the load of every run is over. Raises what the first run failed with that failed, after
    all others have ended.
    """
    capacity = Capacity(1.0 if at_once is None else float(at_once))
    controllers = _Controllers()
    is_single = len(runs) == 1 or at_once == 1 or all(run.cost > capacity.total / 2 for run in runs)
    report = on_event if is_single else _Serialized(on_event)
    loads = _Countdown(len(runs), after_loads)

    def one(run: PendingRun, share: float) -> None:
        try:
            directory = run.begin()
            events = report if is_single else labelled(f"{run.plan.name} {directory.name}", report)
            events = at_end_of_load(events, loads.count)
            carry_out(run.plan, directory, events, controllers.add, lambda: controllers.are_stopped)
        finally:
            capacity.give_back(share)

    with ThreadPoolExecutor(max_workers=len(runs)) as pool:
        futures: list[Future[None]] = []
        try:
            for run in runs:
                share = capacity.take(run.cost if at_once is None else 1.0)
                if any(future.done() and future.exception() for future in futures):
                    break
                futures.append(pool.submit(one, run, share))
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            controllers.stop()  # those that still run: after an interrupt, or if another run failed
    for future in futures:
        future.result()


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


class _Serialized:
    """Passes events of several threads on, one at a time."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._on_event(event)


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
