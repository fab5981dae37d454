"""What a job of a night consists of: the runs of a scenario's sides, or one explored run.

    work = scenario_work(job, plans, begin)
    for each in work.runs: ...         # PendingRun, for harness.running.at_once
    work.take(ended)                   # until work.is_complete

Contains the runs of a job and their directory. Does not contain their order (harness.nightly.night) or judging.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from harness import plugins
from harness.exploration.coverage import Coverage
from harness.exploration.drawing import drawn
from harness.exploration.explore import begin_run, planned
from harness.exploration.request import ExplorationRequest
from harness.model.progress import OnEvent
from harness.nightly.plan import Cell, Job
from harness.planning.plan import Plan, ReproductionRequest
from harness.running.at_once import EndedRun, PendingRun
from harness.running.controller_process import interrupt
from harness.running.reproduce import Reproduction, command_of
from results.store import RunDirectory

OnBegin = Callable[[Job, RunDirectory], None]
"""Called once per job, when its directory exists and before its first run."""


@dataclass(slots=True)
class Work:
    """A job's runs, which of them have ended, and what they failed with. directory is None before the first begins."""

    job: Job
    runs: list[PendingRun] = field(default_factory=list)
    directory: RunDirectory | None = None
    ended: int = 0
    errors: list[str] = field(default_factory=list)

    def take(self, run: EndedRun) -> None:
        """A run of the job has ended."""
        self.ended += 1
        if run.error is not None:
            self.errors.append(str(run.error))

    @property
    def is_complete(self) -> bool:
        """Whether all runs have ended."""
        return self.ended == len(self.runs)

    def end(self) -> None:
        """Record that a reproduction has all its runs, or that some failed; a single run has recorded that itself."""
        if self.directory is not None and self.directory.kind == "reproduction":
            if self.errors or not self.is_complete:
                interrupt(self.directory)
            else:
                self.directory.enter("recorded", datetime.now(UTC))


def scenario_request(cell: Cell, seed: int) -> ReproductionRequest:
    """The reproduction that a cell means."""
    return ReproductionRequest(**_target(cell), nodes=cell.entry.nodes, seed=seed, side=_side(cell))


def _side(cell: Cell) -> Literal["both", "bad", "good"]:
    """The side that the plan asks for.

    A release that the plan names plays the good side alone where the scenario's sides are different releases: it can be
    one of them at most, and the night tells whether it is as good as it should be.
    """
    system, version = plugins.system(cell.system)
    sides = plugins.scenario(cell.what).sides.values()
    releases = {side.setups[system.name].version for side in sides if system.name in side.setups}
    return "good" if cell.entry.side == "both" and version and len(releases) > 1 else cell.entry.side


def exploration_request(cell: Cell) -> ExplorationRequest:
    """The exploration that a cell means."""
    return ExplorationRequest(**_target(cell), run_seconds=cell.entry.run_seconds)


def _target(cell: Cell) -> dict[str, Any]:
    """The system and the hosts of a cell, by the fields of harness.planning.plan.Target."""
    entry = cell.entry
    target = {"features": entry.features, "hosts": entry.hosts, "inventory": entry.inventory}
    return {"system": cell.system, "switches": dict(cell.switches), **target}


def scenario_work(job: Job, plans: list[Plan], store: Path, deadline_seconds: float, on_begin: OnBegin) -> Work:
    """The sides of a scenario; plans are those of its cell, which get the job's seed."""
    work = Work(job)
    scenario = plugins.scenario(job.cell.what)
    request = scenario_request(job.cell, job.seed)
    plans = [plan.model_copy(update={"seed": job.seed, "command": command_of(scenario, request)}) for plan in plans]
    reproduction = Reproduction(scenario, request, plans, store)
    lock = Lock()

    def begin(plan: Plan, on_event: OnEvent) -> tuple[RunDirectory, Plan]:
        begun = reproduction.begin(plan, on_event)
        with lock:
            if work.directory is None:
                work.directory = reproduction.directory
                assert work.directory is not None, "a reproduction has a directory from its first run on"
                on_begin(job, work.directory)
        return begun

    work.runs += [PendingRun(plan, partial(begin, plan), scenario.alone, deadline_seconds) for plan in plans]
    return work


@dataclass(frozen=True, slots=True)
class Explored:
    """What the explored runs of a cell share: the request, its versions, and the actions that its hosts allow."""

    request: ExplorationRequest
    versions: dict[str, str]
    available: frozenset[str]


def explored_work(
    job: Job, explored: Explored, reached: Coverage, store: Path, deadline_seconds: float, on_begin: OnBegin
) -> Work:
    """One run, drawn now from what earlier runs have reached."""
    work = Work(job)
    request = drawn(explored.request, job.seed, explored.available, reached)
    plan = planned(request, reached, explored.versions)

    def begin(on_event: OnEvent) -> tuple[RunDirectory, Plan]:
        work.directory, with_command = begin_run(plan, request, store, on_event)
        on_begin(job, work.directory)
        return work.directory, with_command

    work.runs.append(PendingRun(plan, begin, deadline_seconds=deadline_seconds))
    return work


def size_bytes(directory: Path) -> int:
    """The space that a directory's files take."""
    total = 0
    for path in directory.rglob("*"):
        with suppress(OSError):  # a temporary file of Spark's, or a run that is being removed
            total += path.lstat().st_blocks * 512
    return total
