"""Plays a plan several times, several at once, and says of each run whether it shows a finding.

    attempts = Attempts(store, "server-exited", ("servers",), starting)
    for run, is_failing in attempts.of(plan, times=5): ...

Runs that have ended together are judged together, and by the checks alone that report the finding: judging a small run
in full takes about as long as playing it. A simulated run is the same each time, so each attempt has a seed of its own.

Contains playing and judging. Which plans are tried, and how often they must fail, is in harness.replaying.shrink.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from harness import plugins
from harness.exploration.explore import begin_run
from harness.judging.batches import verdicts
from harness.judging.prepared import PreparedRun, prepare
from harness.judging.spark import StartingSpark
from harness.model import BadInput, SplitbrainError
from harness.model.systems import Report
from harness.planning.plan import Plan, request_of
from harness.running.at_once import PendingRun, ended_together
from harness.running.run import refuse_impossible, resolve
from harness.simulating.request import HOSTS as SIMULATION
from results.run_verdict import RunVerdict
from results.store import RunDirectory

DEADLINE_SECONDS: Final = 600.0
"""A run that takes longer is ended, and does not show the finding."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """checks: those that report the finding. at_once: runs at a time; None for as many as the machine allows."""

    store: Path
    finding: str
    checks: tuple[str, ...]
    starting: StartingSpark
    at_once: int | None = None

    def of(self, plan: Plan, times: int) -> Generator[tuple[RunDirectory, bool], None, None]:
        """The runs of a plan as they end, and whether each shows the finding; those that do not are removed.

        None for a plan that the system or the hosts do not support. Closing the iterator ends the runs that take place.
        """
        try:
            refuse_impossible(plan)
        except BadInput:
            return
        runs = [self._pending(plan, number) for number in range(times)]
        before, failing = set(self.store.iterdir()), set()
        try:
            # The runs' own events are not reported: many short ones take place.
            with closing(ended_together(runs, self.at_once, lambda _: None, keep_going=True, most=times)) as together:
                for ended in together:
                    directories = [each.directory for each in ended if each.directory is not None]
                    showing = self._showing(directories)
                    failing |= showing
                    yield from ((each, each.path in showing) for each in directories)
        finally:
            for path in set(self.store.iterdir()) - before - failing:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)

    def _pending(self, plan: Plan, number: int) -> PendingRun:
        seed = plan.seed + number if plugins.host_kind(plan.hosts).simulated else plan.seed
        own = plan.model_copy(update={"seed": seed})
        return PendingRun(own, partial(begin_run, own, request_of(own), self.store), deadline_seconds=DEADLINE_SECONDS)

    def _showing(self, runs: Sequence[RunDirectory]) -> set[Path]:
        """Those of the runs that show the finding; one that cannot be checked does not."""
        prepared = [each for run in runs if (each := self._prepared(run)) is not None]
        judged = verdicts(prepared, self.starting.result())
        return {
            each.run.path
            for each, verdict in judged
            if isinstance(verdict, RunVerdict) and self.finding in broken(verdict)
        }

    def _prepared(self, run: RunDirectory) -> PreparedRun | None:
        try:
            prepared = prepare(run)
        except (SplitbrainError, OSError):
            return None
        return replace(prepared, inputs=replace(prepared.inputs, checks=self.checks), measures=())


def in_simulation(plan: Plan, report: Report) -> Plan | None:
    """The plan on simulated nodes; None if it is simulated already or its system cannot be."""
    if plugins.host_kind(plan.hosts).simulated:
        return None
    simulated = plan.model_copy(update={"hosts": SIMULATION, "disk": "directory", "inventory": None})
    try:
        asyncio.run(resolve(request_of(simulated), report))
        refuse_impossible(simulated)
    except SplitbrainError:
        return None
    return simulated


def broken(verdict: RunVerdict) -> list[str]:
    """The names of the broken guarantees, each once."""
    return list(dict.fromkeys(each.name for each in verdict.findings if each.severity == "invalid"))
