"""Explores a system: draws runs, carries them out several at a time, and checks them, until one breaks a guarantee.

Each run is stored like any other, with the command that repeats it. A run is drawn by what the checked runs of its
store have reached; those of the same exploration count as soon as they are checked.

Contains the loop. Does not contain what a run is (harness.exploration.drawing).
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from harness import plugins
from harness.exploration.coverage import Coverage
from harness.exploration.drawing import described, drawn
from harness.exploration.reached import coverage_of, coverage_of_store
from harness.exploration.request import ExplorationRequest
from harness.judging.runs import judge_run
from harness.judging.spark import start_spark
from harness.model import Verdict
from harness.model.progress import OnEvent, Phase, RunStarted, phases
from harness.planning.plan import Plan, Request
from harness.planning.preflight import preflight
from harness.recovery.heal import heal_before_a_run
from harness.running.at_once import PendingRun, ended_together
from harness.running.fault_trials import TrialEnvironment, survey
from harness.running.run import command_of, new_seed, plan_of, refuse_impossible, resolve_system
from results.run_verdict import RunVerdict
from results.store import RunDirectory, new_run

FAILURES_MAX: Final = 3
"""So many runs that fail one after another are no accident of a run."""


def explore(
    request: ExplorationRequest, store: Path, master: str | None, on_event: OnEvent
) -> Iterator[tuple[RunDirectory, RunVerdict, Coverage]]:
    """The runs with verdict and coverage, as they are checked, until one is invalid or the time is over; at least one.

    With keep_going, a run that fails is unknown, unless FAILURES_MAX fail in a row. Runs that have begun when the time
    is over are completed; those that take place when one is invalid are interrupted.
    Raises BadInput for what the system or the hosts do not support.
    """
    deadline = time.monotonic() + request.time_limit_seconds
    request, versions = resolved(request, on_event)
    assert request.seed is not None
    preflight(request.hosts)
    for line in heal_before_a_run(store):
        on_event(Phase(line))
    on_event(Phase("finding out which faults are available"))
    available = available_actions(request)
    starting = start_spark(master)  # it judges the first run while others take place, so it need not wait for them
    reached = coverage_of_store(store, request.system)
    seeds = takewhile(lambda seed: seed == request.seed or time.monotonic() < deadline, count(request.seed))
    runs = (_pending_run(drawn(request, seed, available, reached), reached, versions, store) for seed in seeds)
    together = ended_together(runs, request.at_once, on_event, keep_going=request.keep_going, most=1)
    failures = 0
    with closing(together):
        for (ended,) in together:
            directory, error = ended.directory, ended.error
            failures = 0 if error is None else failures + 1
            if error is not None and (directory is None or failures == FAILURES_MAX):
                raise error
            assert directory is not None, "a run that has not failed has a directory"
            if error is not None:
                yield directory, RunVerdict(directory.name, Verdict.UNKNOWN, f"it failed: {error}"), Coverage()
                continue
            on_event(Phase(f"checking {directory.name}"))
            verdict = judge_run(directory, starting.result())
            coverage = coverage_of(directory)
            reached += coverage
            yield directory, verdict, coverage
            if verdict.verdict is Verdict.INVALID and not request.keep_going:
                return


def _pending_run(request: Request, reached: Coverage, versions: dict[str, str], store: Path) -> PendingRun:
    plan = planned(request, reached, versions)
    return PendingRun(plan, partial(begin_run, plan, request, store))


def planned(request: Request, reached: Coverage, versions: dict[str, str]) -> Plan:
    """The plan of a run that was drawn from this coverage.

    Raises BadInput for what the system or the hosts do not support.
    """
    plan = plan_of(request, versions).model_copy(update={"drawn_from": reached.to_json()})
    refuse_impossible(plan)
    return plan


def begin_run(plan: Plan, request: Request, store: Path, on_event: OnEvent) -> tuple[RunDirectory, Plan]:
    """The directory of a run that begins, and its plan with the command that repeats it from there."""
    directory = new_run(store, plan.name, datetime.now(UTC))
    on_event(RunStarted(described(plan), str(directory.path), plan.story_seconds))
    return directory, plan.model_copy(update={"command": shlex.join(command_of(request, directory))})


def resolved(request: ExplorationRequest, on_event: OnEvent) -> tuple[ExplorationRequest, dict[str, str]]:
    """The request with an exact version and a seed, and what to note of versions."""
    system, versions = asyncio.run(resolve_system(request.system, "", request.hosts, phases(on_event)))
    seed = new_seed() if request.seed is None else request.seed
    return request.model_copy(update={"system": system, "seed": seed}), versions


def available_actions(request: ExplorationRequest) -> Collection[str]:
    """The actions that are possible on these hosts, on a disk that can lose what was not synced if they have one.

    The survey runs the reference system; what that system alone does not support counts as possible.
    """
    reference, _ = plugins.system("reference")
    faults = plugins.actions()
    unsupported = reference.reasons("controllers", None)
    for disk in ("ext4", "directory"):
        with TemporaryDirectory(prefix="splitbrain-survey-") as store:
            reasons = survey(TrialEnvironment(request.hosts, disk, request.inventory), Path(store))
        available = {action for action, reason in reasons.items() if reason is None}
        if available:
            break
    return available | {name for name in reasons if not {name, faults[name].name}.isdisjoint(unsupported)}
