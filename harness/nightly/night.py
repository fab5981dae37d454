"""Carries out a night: its jobs in order, several runs at a time, judged as they end, within the night's budget.

    for result in Night(directory, store, master, on_event).results(): ...

A night that was interrupted in any way resumes: runs that were recorded are judged, a job whose run was interrupted is
tried again, and everything that was left on the machine is healed first. A run that fails, or has not ended by its
deadline, does not end the night; its job is unknown.

Contains the order of things. The matrix is in harness.nightly.plan, the files in harness.nightly.directory.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from harness import plugins
from harness.exploration.coverage import Coverage
from harness.exploration.explore import available_actions, resolved
from harness.exploration.reached import coverage_of, coverage_of_store
from harness.judging.batches import directory_verdicts
from harness.judging.index import OUTCOMES
from harness.judging.spark import StartingSpark, start_spark
from harness.model import BadInput, SplitbrainError
from harness.model.errors import one_line
from harness.model.plurals import counted
from harness.model.progress import OnEvent, Phase, Tally, phases
from harness.nightly.directory import ATTEMPTS_MAX, JobState, NightDirectory, locked
from harness.nightly.plan import EXPLORE, Cell, Job, cells_of, jobs_of
from harness.nightly.summary import write_jobs
from harness.nightly.work import (
    Explored,
    Work,
    exploration_request,
    explored_work,
    scenario_request,
    scenario_work,
    size_bytes,
)
from harness.planning.plan import Plan
from harness.planning.preflight import preflight
from harness.recovery.heal import heal_before_a_run
from harness.running.at_once import PendingRun, ended_together
from harness.running.reproduce import plans_to_run
from results.files import write_json
from results.run_verdict import RunVerdict
from results.store import FREE_BYTES_MIN, RunDirectory

FREE_FACTOR: Final = 4
"""A night ends while the file system still has this many times the space that a single run needs."""
JUDGED_TOGETHER_MAX: Final = 8
"""Runs that are judged together take little longer than one. More would be outdated when the next ones are drawn."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended: passed, failed or unknown, its directory if it has one, and a sentence about it."""

    job: Job
    outcome: str
    directory: RunDirectory | None
    summary: str

    @property
    def line(self) -> str:
        """The result in a line."""
        where = f"  {self.directory.path}" if self.directory and self.outcome != "passed" else ""
        return f"{self.outcome:8}{self.job.id}: {self.summary}{where}"

    def to_json(self) -> dict[str, Any]:
        """The result as JSON."""
        cell, run = self.job.cell, str(self.directory.path) if self.directory else None
        job = {"case": cell.what, "system": cell.system, "variant": cell.variant, "seed": self.job.seed}
        return {"job": self.job.id, **job, "outcome": self.outcome, "summary": self.summary, "run": run}


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A job whose runs have ended: its directory, and what its runs failed with."""

    job: Job
    directory: RunDirectory
    errors: Sequence[str] = ()


class Night:
    """A night that begins or resumes."""

    def __init__(self, directory: NightDirectory, store: Path, master: str | None, on_event: OnEvent) -> None:
        self._directory, self._store, self._master, self._on_event = directory, store, master, on_event
        self._plan = directory.plan()
        self._end = directory.began() + timedelta(hours=self._plan.hours)
        self._plans: dict[str, list[Plan]] = {}
        self._explored: dict[str, Explored] = {}
        self._reached: dict[str, Coverage] = {}
        self._works: dict[int, Work] = {}
        self._size_bytes = 0
        self._tally: Counter[str] = Counter()
        self._jobs_all = 0
        self.stopped_by = ""

    def results(self) -> Iterator[JobResult]:
        """The results of the jobs, as they end; those that ended before the night was interrupted are not repeated.

        stopped_by then says what ended the night before its last job, if anything did. Raises BadInput for a plan that
        cannot be carried out, and for a night that is already running.
        """
        with locked(self._directory):
            cells = self._possible_cells()
            jobs = jobs_of(cells, self._plan.seed or 0)[: self._plan.runs]
            known = self._directory.jobs()
            self._jobs_all = len(jobs)
            self._tally.update(state.outcome for state in known.values() if state.outcome)
            write_jobs(self._directory, jobs)
            verb = "resumed" if self._directory.ledger.exists() else "started"
            ends = f"no run begins after {self._end.astimezone():%d %B %H:%M}"
            self._on_event(Phase(f"night {self._directory.name} {verb}, {ends}"))
            self._directory.record(verb, pid=os.getpid(), jobs=len(jobs))
            starting = start_spark(self._master)
            yield from self._recovered(jobs, known, starting)
            yield from self._carried_out(self._left(jobs), starting)
            self._directory.record("finished", stopped_by=self.stopped_by)

    def _possible_cells(self) -> list[Cell]:
        """The cells that can be carried out. A night that is refused before it has begun leaves nothing."""
        try:
            return self._prepare()
        except BadInput:
            if not self._directory.ledger.exists():
                shutil.rmtree(self._directory.path)
            raise

    def _prepare(self) -> list[Cell]:
        """The cells that can be carried out, once everything that an earlier run left is healed."""
        for hosts in dict.fromkeys(entry.hosts for entry in self._plan.entries):
            preflight(hosts)
        for line in heal_before_a_run(self._store):
            self._on_event(Phase(line))
        return [cell for cell in cells_of(self._plan) if self._prepared(cell)]

    def _prepared(self, cell: Cell) -> bool:
        """Keep what the jobs of a cell share; False for one that cannot be carried out.

        Raises BadInput where the plan names the scenario itself.
        """
        try:
            if cell.what == EXPLORE:
                self._explored[cell.title] = self._explored_by(cell)
            else:
                request = scenario_request(cell, self._plan.seed or 0)
                self._plans[cell.title] = plans_to_run(plugins.scenario(cell.what), request, self._on_event)
        except BadInput as error:
            if cell.is_required:
                raise
            self._on_event(Phase(f"left out: {cell.title}: {error}"))
            return False
        return True

    def _explored_by(self, cell: Cell) -> Explored:
        request, versions = resolved(exploration_request(cell), self._on_event)
        same = (each for each in self._explored.values() if each.request.hosts == request.hosts)
        available = next((each.available for each in same), None)
        if available is None:
            self._on_event(Phase("finding out which faults are available"))
            available = frozenset(available_actions(request))
        if request.system not in self._reached:
            self._reached[request.system] = coverage_of_store(self._store, request.system)
        return Explored(request, versions, available)

    def _recovered(
        self, jobs: Sequence[Job], known: dict[str, JobState], starting: StartingSpark
    ) -> Iterator[JobResult]:
        """Judge what was recorded when the night was interrupted; end jobs that were interrupted too often."""
        recorded: list[_Recorded] = []
        for job in jobs:
            state = known.get(job.id)
            if state is None:
                continue
            self._size_bytes += sum(size_bytes(self._store / run) for run in state.runs)
            if state.outcome is not None or not state.runs:
                continue
            directory = RunDirectory(self._store / state.runs[-1])
            if _is_recorded(directory, len(self._plans.get(job.cell.title, ["one run"]))):
                recorded.append(_Recorded(job, directory))
            elif len(state.runs) >= ATTEMPTS_MAX:
                error = f"interrupted {ATTEMPTS_MAX} times, not tried again"
                yield self._ended(JobResult(job, "unknown", directory, error))
        yield from self._judged(recorded, starting)

    def _left(self, jobs: Sequence[Job]) -> Iterator[Job]:
        """The jobs that have not ended, as long as the budget allows another one."""
        known = self._directory.jobs()
        for job in (each for each in jobs if known.get(each.id, JobState()).outcome is None):
            self.stopped_by = self._limit()
            if self.stopped_by:
                return
            yield job

    def _limit(self) -> str:
        """What forbids another run; empty if nothing does."""
        if datetime.now(UTC) >= self._end:
            return f"its time, {self._plan.hours:g} h, was over"
        if self._plan.disk_gib is not None and self._size_bytes >= self._plan.disk_gib * 2**30:
            return f"its runs take {self._plan.disk_gib:g} GiB"
        if shutil.disk_usage(self._store if self._store.exists() else Path()).free < FREE_FACTOR * FREE_BYTES_MIN:
            return f"{self._store} has less than {FREE_FACTOR * FREE_BYTES_MIN >> 20} MiB of free space"
        return ""

    def _carried_out(self, jobs: Iterator[Job], starting: StartingSpark) -> Iterator[JobResult]:
        """Carry out the jobs, and judge each as soon as its runs have ended, together with others that have."""
        runs = (run for job in jobs for run in self._begun(job))
        at_once, on_event = self._plan.at_once, self._on_event
        try:
            with closing(
                ended_together(runs, at_once, on_event, keep_going=True, most=JUDGED_TOGETHER_MAX)
            ) as together:
                for ended in together:
                    works = [self._works[id(each.run)] for each in ended]
                    for work, each in zip(works, ended, strict=True):
                        work.take(each)
                    complete = {id(work): work for work in works if work.is_complete}
                    yield from self._concluded(list(complete.values()), starting)
        finally:
            for work in {id(work): work for work in self._works.values() if not work.is_complete}.values():
                work.end()

    def _begun(self, job: Job) -> list[PendingRun]:
        deadline = self._plan.deadline_seconds
        if job.cell.what == EXPLORE:
            explored = self._explored[job.cell.title]
            reached = self._reached[explored.request.system]
            work = explored_work(job, explored, reached, self._store, deadline, self._on_begin)
        else:
            work = scenario_work(job, self._plans[job.cell.title], self._store, deadline, self._on_begin)
        self._works |= {id(run): work for run in work.runs}
        return work.runs

    def _on_begin(self, job: Job, directory: RunDirectory) -> None:
        self._directory.record("began", job=job.id, run=directory.name)
        write_json(directory.origin, {"night": self._directory.name, "variant": job.cell.variant})

    def _concluded(self, works: Sequence[Work], starting: StartingSpark) -> Iterator[JobResult]:
        """The results of jobs whose runs have all ended."""
        recorded: list[_Recorded] = []
        for work in works:
            work.end()
            for run in work.runs:
                del self._works[id(run)]
            if work.directory is None:
                yield self._ended(JobResult(work.job, "unknown", None, "; ".join(work.errors)))
            else:
                self._size_bytes += size_bytes(work.directory.path)
                recorded.append(_Recorded(work.job, work.directory, work.errors))
        yield from self._judged(recorded, starting)

    def _judged(self, recorded: Sequence[_Recorded], starting: StartingSpark) -> Iterator[JobResult]:
        """The results of jobs by the verdicts on what their runs recorded."""
        if not recorded:
            return
        by_path = {each.directory.path: each for each in recorded}
        directories = [each.directory for each in recorded]
        report = phases(self._on_event)
        for directory, verdict in directory_verdicts(directories, starting.result(), report, is_written=True):
            yield self._ended(self._result(by_path[directory.path], verdict))

    def _result(self, recorded: _Recorded, verdict: RunVerdict | SplitbrainError | OSError) -> JobResult:
        """The result of a job by its verdict. A job with a failed run does not pass."""
        job, directory, errors = recorded.job, recorded.directory, recorded.errors
        outcome, text = "unknown", str(verdict)
        if isinstance(verdict, RunVerdict):
            outcome, text = OUTCOMES[verdict.verdict.value], verdict.summary
            if job.cell.what == EXPLORE:
                self._reached[self._explored[job.cell.title].request.system] += coverage_of(directory)
        if errors:
            outcome, text = "failed" if outcome == "failed" else "unknown", "; ".join([*errors, text])
        return JobResult(job, outcome, directory, one_line(text))

    def _ended(self, result: JobResult) -> JobResult:
        """Record a job's result in the ledger."""
        run = result.directory.name if result.directory else ""
        self._directory.record("ended", job=result.job.id, run=run, outcome=result.outcome, error=result.summary)
        self._tally[result.outcome] += 1
        left = max(0.0, (self._end - datetime.now(UTC)).total_seconds())
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self._tally.items()))
        done = sum(self._tally.values())
        self._on_event(Tally(f"{done} of {counted(self._jobs_all, 'job')}: {counts}; {left / 60:.0f} min left"))
        return result


def _is_recorded(directory: RunDirectory, runs: int) -> bool:
    """Whether a job's run, or all the runs of its reproduction, were recorded, so that it can be judged."""
    try:
        parts = directory.own_runs()
        return len(parts) == runs and all(part.status in ("recorded", "judged") for part in parts)
    except (BadInput, OSError):
        return False
