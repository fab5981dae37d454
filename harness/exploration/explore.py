"""Explores a system: draws runs, carries them out several at a time, and checks them, until one breaks a guarantee.

Each run is stored like any other, with the command that repeats it.

Contains the loop. Does not contain what a run is (harness.exploration.drawing).
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.exploration.drawing import drawn
from harness.exploration.request import ExplorationRequest
from harness.judging.runs import judge_run
from harness.judging.spark import SparkLater
from harness.model import Verdict
from harness.model.progress import OnEvent, Phase, RunStarted, phases
from harness.planning.plan import Plan, Request
from harness.planning.preflight import preflight, require_hosts
from harness.recovery.heal import heal_before_a_run
from harness.running.at_once import PendingRun, carry_out_all, cost_of, machine
from harness.running.fault_trials import TrialEnvironment, survey
from harness.running.run import command_of, new_seed, plan_of, resolve_system, title_of
from harness.systems.cluster import Cluster, refuse_unavailable_faults
from results.run_verdict import RunVerdict
from results.store import RunDirectory, new_run


def explore(
    request: ExplorationRequest, store: Path, master: str | None, on_event: OnEvent
) -> Iterator[tuple[RunDirectory, RunVerdict]]:
    """The runs with their verdicts, as they are checked, until one is invalid or the time is over.

    The last runs may end after the time limit. Raises BadInput for what the system or the hosts do not support.
    """
    deadline = time.monotonic() + request.time_limit_seconds
    request, versions = _resolved(request, on_event)
    assert request.seed is not None
    preflight(request.hosts)
    for line in heal_before_a_run(store):
        on_event(Phase(line))
    on_event(Phase("finding out which faults are available"))
    available = _available(request)
    later, seeds = SparkLater(master), count(request.seed)
    is_over = False
    while not is_over:
        runs = [_Run(drawn(request, next(seeds), available), versions, store)]
        at_once = request.at_once or max(1, int(1 / cost_of(runs[0].plan, machine())))
        runs += [_Run(drawn(request, next(seeds), available), versions, store) for _ in range(at_once - 1)]
        carry_out_all([run.pending() for run in runs], request.at_once, on_event, later.start)
        for run in runs:
            on_event(Phase(f"checking {run.directory.name}"))
            verdict = judge_run(run.directory, later.session())
            is_over |= verdict.verdict is Verdict.INVALID and not request.keep_going
            yield run.directory, verdict
        is_over |= time.monotonic() > deadline


class _Run:
    """One drawn run; its directory exists once it has begun."""

    def __init__(self, request: Request, versions: dict[str, str], store: Path) -> None:
        self._request, self._store = request, store
        self.plan = plan_of(request, versions)
        Cluster(self.plan)
        refuse_unavailable_faults(self.plan)
        require_hosts(self.plan)
        self.directory: RunDirectory

    def pending(self) -> PendingRun:
        """The run as carry_out_all takes it."""
        self.directory = new_run(self._store, self.plan.name, datetime.now(UTC))
        command = shlex.join(command_of(self._request, self.directory))
        self.plan = self.plan.model_copy(update={"command": command})
        return PendingRun(self.plan, partial(_begin, self.plan, self.directory))


def _begin(plan: Plan, directory: RunDirectory, on_event: OnEvent) -> RunDirectory:
    on_event(RunStarted(title_of(plan), str(directory.path), plan.story_seconds))
    return directory


def _resolved(request: ExplorationRequest, on_event: OnEvent) -> tuple[ExplorationRequest, dict[str, str]]:
    """The request with an exact version and a seed, and what to note of versions."""
    system, versions = asyncio.run(resolve_system(request.system, "", phases(on_event)))
    seed = new_seed() if request.seed is None else request.seed
    return request.model_copy(update={"system": system, "seed": seed}), versions


def _available(request: ExplorationRequest) -> Collection[str]:
    """The actions that are possible here, on a disk that can lose what was not synced if the hosts have one."""
    for disk in ("ext4", "directory"):
        with TemporaryDirectory(prefix="splitbrain-survey-") as store:
            reasons = survey(TrialEnvironment(request.hosts, disk, request.inventory), Path(store))
        available = {action for action, reason in reasons.items() if reason is None}
        if available:
            break
    return available
