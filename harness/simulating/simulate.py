"""Simulates many random runs, and stores and checks those that do not pass the screen.

    search = Search(request, store, master, on_event)
    for directory, verdict in search.runs(): ...
    search.tally                    # how many runs, why some did not pass, and how long it took
    search.known_defect(reason)     # the known defect of Kafka that explains it, e.g. "EX-02"

A run that does not pass is simulated again, with all that observers record, and stored and judged like any other; of
each reason, the first STORED runs. So is a share of the runs that pass, if the request asks for a sample. A search that
keeps going judges CHECKED_TOGETHER runs at once, in little more time than one.

Contains the loop. Does not contain the simulation of a run, or the search.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.judging.batches import directory_verdicts
from harness.judging.known_defects import known_reason
from harness.judging.spark import SparkLater
from harness.model import Verdict
from harness.model.plurals import counted
from harness.model.progress import Event, OnEvent, Phase, phases
from harness.planning.preflight import preflight
from harness.recovery.heal import heal_before_a_run
from harness.running.run import new_seed, resolve_system
from harness.simulating.pool import processes
from harness.simulating.recording import record
from harness.simulating.releases import require_other_releases
from harness.simulating.request import HOSTS, SimulationRequest, require_compilable
from harness.simulating.screening import Screened
from harness.simulating.searching import available_actions, processors, search
from nodes.simulation.compiled import compiled
from nodes.simulation.kafka.cluster import IN_FILES
from nodes.simulation.schedule import NO_SPIN
from results.run_verdict import RunVerdict
from results.store import RunDirectory, require_new_runs

STORED: Final = 3
"""How many runs of one reason are stored and checked."""
CHECKED_TOGETHER: Final = 12
"""How many stored runs wait for their check, in a search that keeps going."""
REPORT_SECONDS: Final = 5.0


@dataclass(slots=True)
class Reason:
    """Why runs did not pass the screen: how many, and the seed of the first of them."""

    runs: int
    first_seed: int


@dataclass(slots=True)
class Tally:
    """What was simulated so far. seconds is real time since the first run began, without the time for checks;
    virtual_seconds is that of all runs together."""

    runs: int = 0
    seconds: float = 0.0
    virtual_seconds: float = 0.0
    operations: int = 0
    reasons: dict[str, Reason] = field(default_factory=dict)

    def add(self, screened: Screened) -> None:
        """Count a run."""
        self.runs += 1
        self.virtual_seconds += screened.virtual_ms / 1000
        self.operations += screened.operations
        if screened.reason is not None:
            reason = self.reasons.setdefault(screened.reason, Reason(0, screened.seed))
            reason.runs += 1
            reason.first_seed = min(reason.first_seed, screened.seed)

    @property
    def failed(self) -> int:
        """How many runs did not pass."""
        return sum(reason.runs for reason in self.reasons.values())

    @property
    def per_minute(self) -> float:
        """Runs in a minute."""
        return 60 * self.runs / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        mean = self.virtual_seconds / self.runs if self.runs else 0
        found = f", {counted(self.failed, 'run')} to check" if self.failed else ""
        return f"{counted(self.runs, 'run')} of {mean:.1f} virtual seconds, {self.per_minute:,.0f} a minute{found}"


class Search:
    """One search over the seeds of a request."""

    def __init__(self, request: SimulationRequest, store: Path, master: str | None, on_event: OnEvent) -> None:
        """Raises BadInput for a system that is unknown or cannot be simulated."""
        require_other_releases(request)
        require_compilable(request)
        report = phases(on_event)
        system, self._versions = asyncio.run(resolve_system(request.system, "", HOSTS, report))
        releases = {
            field: asyncio.run(resolve_system(name, "", HOSTS, report))[0]
            for field in ("beside", "upgrade_to")
            if (name := getattr(request, field)) is not None
        }
        seed = new_seed() if request.seed is None else request.seed
        switches = {**(IN_FILES if request.upgrade_to else {}), **request.switches}
        self.request = request.model_copy(update={"system": system, "switches": switches, "seed": seed, **releases})
        require_other_releases(self.request)  # `kafka` is the newest release, and may be that of another option
        self.tally = Tally()
        self._store, self._spark, self._on_event = store, SparkLater(master), on_event
        self._available = available_actions(self.request)
        self._recordings: list[Future[tuple[Path, list[Event]]]] = []
        self._unchecked: list[RunDirectory] = []
        self._sampled = Random(f"sample {seed}")

    def known_defect(self, reason: str) -> str | None:
        """The known defect of Kafka that explains why runs do not pass; None if they show something new."""
        request = self.request
        return known_reason(filter(None, (request.system, request.beside, request.upgrade_to)), reason)

    def to_json(self) -> dict[str, Any]:
        """The tally as JSON."""
        tally = self.tally
        return {
            "seed": self.request.seed,
            "runs": tally.runs,
            "seconds": round(tally.seconds, 3),
            "virtual_seconds": round(tally.virtual_seconds, 3),
            "operations": tally.operations,
            "reasons": {
                name: {
                    "runs": reason.runs,
                    "first_seed": reason.first_seed,
                    "known_defect": self.known_defect(name),
                }
                for name, reason in tally.reasons.items()
            },
            "unchecked": [str(run.path) for run in self.unchecked],
        }

    @property
    def unchecked(self) -> Sequence[RunDirectory]:
        """The stored runs that still wait for their check, because the search was interrupted."""
        ended = (each for each in self._recordings if each.done() and not each.cancelled() and not each.exception())
        return [*self._unchecked, *(RunDirectory(each.result()[0]) for each in ended)]

    def runs(self) -> Iterator[tuple[RunDirectory, RunVerdict]]:
        """The runs that were stored, as they are checked.

        Without keep_going, the first invalid one is the last, unless no more is wrong than NO_SPIN. The search ends
        with the first run after the time limit, too.
        """
        preflight(HOSTS)
        require_new_runs(self._store)
        for line in heal_before_a_run(self._store):
            self._on_event(Phase(line))
        request, modules = self.request, self._compiled()
        self._on_event(Phase(f"simulating {counted(request.seeds, 'run')} of {request.system}, seed {request.seed}"))
        with processes(processors(request), modules) as pool:
            for screened in self._screened(pool):
                if not self._is_stored(screened):
                    continue
                arguments = request, self._versions, screened.seed, self._available, self._store
                self._recordings.append(pool.submit(record, *arguments))
                if request.keep_going and len(self._recordings) < CHECKED_TOGETHER:
                    continue
                for directory, verdict in self._checked():
                    yield directory, verdict
                    ends = verdict.verdict is Verdict.INVALID and screened.reason != NO_SPIN
                    if ends and not request.keep_going:
                        return
            yield from self._checked()

    def _compiled(self) -> Path | None:
        return compiled(lambda line: self._on_event(Phase(line))) if self.request.compiled else None

    def _screened(self, pool: Executor) -> Iterator[Screened]:
        """The runs as they are screened, until the time is over. What the caller does meanwhile is time for checks."""
        deadline = time.monotonic() + (self.request.time_limit_seconds or math.inf)
        checking, begun, reported = 0.0, None, time.monotonic()
        for screened in search(self.request, self._available, pool):
            now = time.monotonic()
            begun = now - screened.seconds if begun is None else begun  # the processes' start takes seconds
            self.tally.add(screened)
            self.tally.seconds = now - begun - checking
            if now - reported >= REPORT_SECONDS:
                reported = now
                self._on_event(Phase(str(self.tally)))
            yield screened
            checking += time.monotonic() - now
            if time.monotonic() > deadline:
                return

    def _is_stored(self, screened: Screened) -> bool:
        if screened.reason is not None:
            return self.tally.reasons[screened.reason].runs <= STORED
        return self._sampled.random() < self.request.sample

    def _checked(self) -> Iterator[tuple[RunDirectory, RunVerdict]]:
        """The verdicts on the runs that wait for them. Raises what makes one of them impossible."""
        for path, events in (each.result() for each in self._recordings):
            self._unchecked.append(RunDirectory(path))
            for event in events:
                self._on_event(event)
        self._recordings.clear()
        if not self._unchecked:
            return
        what = self._unchecked[0].name if len(self._unchecked) == 1 else counted(len(self._unchecked), "run")
        self._on_event(Phase(f"checking {what}", "checks"))
        report, spark = phases(self._on_event), self._spark.session()
        for directory, verdict in directory_verdicts(list(self._unchecked), spark, report, is_written=True):
            if not isinstance(verdict, RunVerdict):
                raise verdict
            self._unchecked.remove(directory)
            yield directory, verdict
