"""Shrinks a failing run: finds the smallest story, cluster and load that still show the same finding.

    shrunk = Shrinking(run, finding=None, time_limit_seconds=1800, …).shrink()

If simulated nodes show the finding too, the plan is reduced in simulation, where many runs take a few seconds. The
smallest of these plans has to fail on the run's own hosts; if it does not, the smallest one that does is reduced there.

A candidate has to fail about as often as the original does, or stories that fail ever more rarely would follow each
other. What was tried is on disk, in `results/shrinks/RUN/`, so the same command resumes where an interrupted one
stopped:

    tried.jsonl     one line per candidate        runs/           the runs that failed; others are removed
    plan.toml       the smallest plan so far      scenario.py     the same as a value for the catalogue
    summary.md      what was removed, and how often the result fails

Contains what is accepted and recorded. What is tried in which order is in harness.replaying.reductions, how often a
candidate has to fail in harness.replaying.trials, the texts in harness.replaying.shrunk.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.judging.runs import judge_run
from harness.judging.spark import start_spark
from harness.model import BadInput
from harness.model.plurals import counted
from harness.model.progress import OnEvent, Phase, Tally, phases
from harness.planning.plan import Plan
from harness.planning.preflight import preflight
from harness.plugins import host_kind
from harness.recovery.heal import heal_before_a_run
from harness.replaying.attempts import Attempts, broken, in_simulation
from harness.replaying.reductions import reduced, with_waits_of
from harness.replaying.shrunk import (
    CONFIRMATIONS,
    CONFIRMED_MIN,
    Shrunk,
    outcome_text,
    scenario_of,
    size_of,
    summary_of,
    toml_of,
)
from harness.replaying.trials import (
    ATTEMPTS_MAX,
    DEMANDS,
    OF_ORIGINAL,
    JudgedTrials,
    Trials,
    screened_trials,
)
from harness.simulating.pool import processes
from results.files import write_text
from results.run_verdict import read_verdict
from results.store import RunDirectory


@dataclass(slots=True, eq=False)
class _Accepted:
    """A plan that was accepted, a run of it that failed, and how often it failed when it was confirmed, if it was."""

    plan: Plan
    failing: RunDirectory
    failed: int = 0
    played: int = 0

    @property
    def is_confirmed(self) -> bool:
        return self.failed >= CONFIRMED_MIN


FOLDER: Final = "shrinks"


class OutOfTime(Exception):
    """The time limit is over."""


class Shrinking:
    """The shrinking of one run, which resumes from what it has tried before."""

    def __init__(
        self,
        run: RunDirectory,
        finding: str | None,
        time_limit_seconds: float,
        at_once: int | None,
        master: str | None,
        on_event: OnEvent,
    ) -> None:
        """Raises BadInput for a run that did not fail, or not with this finding."""
        self._original = Plan.read(run.plan).model_copy(update={"scenario": None, "side": None})
        self._finding = _chosen(run, finding)
        is_side = (run.path.parent / "status.json").exists()
        store = run.path.parent.parent if is_side else run.path.parent
        self._folder = store.parent / FOLDER / run.label
        self._store = self._folder / "runs"
        self._deadline = time.monotonic() + time_limit_seconds
        self._at_once, self._master, self._on_event = at_once, master, on_event
        self._checks = _checks_of(run, self._finding)
        self._tried = {each["key"]: each for each in _lines(self._folder / "tried.jsonl")}
        self._accepted: list[_Accepted] = []

    def shrink(self) -> Shrunk:
        """Reduce the plan until nothing more can be left out or the time is over, and confirm the result.

        Raises BadInput if the run does not fail again, OSError where nothing can be written.
        """
        preflight(self._original.hosts)
        self._store.mkdir(parents=True, exist_ok=True)
        for line in heal_before_a_run(self._store):
            self._on_event(Phase(line))
        starting = start_spark(self._master)
        self._attempts = Attempts(self._store, self._finding, self._checks, starting, self._at_once)
        try:
            with processes(self._at_once or len(os.sched_getaffinity(0))) as pool:
                is_complete = self._reduce(pool)
            if not self._accepted:
                raise BadInput("--time-limit: expected time for at least one attempt")
            result = self._confirm()
            judge_run(result.failing, starting.result())
        except KeyboardInterrupt:
            if self._accepted:
                self._write(self._accepted[-1], is_complete=False)
            raise
        return self._write(result, is_complete)

    def _reduce(self, pool: Executor) -> bool:
        """Reduce the plan; whether that went to its end before the time was over."""
        try:
            trials = self._trials_for(self._original, pool)
            if trials is None:
                expected = f"expected a run that fails again, found none in {ATTEMPTS_MAX} attempts"
                raise BadInput(f"{self._finding}: {expected}")
            fails = partial(self._fails, trials)
            simulated = in_simulation(self._original, phases(self._on_event))
            if simulated is not None and (screened := self._trials_for(simulated, pool)) is not None:
                if self._is_reduced_in_simulation(simulated, screened):
                    return True
                fails = partial(self._fails_simulated_too, simulated, screened, trials)
            reduced(self._accepted[-1].plan, fails)
        except OutOfTime:
            return False
        return True

    def _is_reduced_in_simulation(self, simulated: Plan, trials: Trials) -> bool:
        """Reduce the plan in simulation; whether the smallest one found there is confirmed on the original's hosts.

        If it is not, the accepted plans end with the smallest one that is, or with the original. Raises OutOfTime.
        """
        try:
            reduced(simulated, partial(self._fails, trials))
        except OutOfTime:
            self._is_confirmed_on_hosts()
            raise
        return self._is_confirmed_on_hosts()

    def _is_confirmed_on_hosts(self) -> bool:
        """Whether the smallest plan of the simulation is confirmed; if not, the ones that are not are dropped.

        Real hosts, on which times vary more, may need the waits and pauses that were left out: the plan is played with
        them before larger ones are.
        """
        smallest = self._accepted[-1]
        if self._is_confirmed(smallest):
            return True
        of_size = [each.plan for each in reversed(self._accepted) if each.plan.nodes == smallest.plan.nodes]
        longest = max(of_size, key=lambda plan: len(plan.story))
        with_waits = _Accepted(with_waits_of(longest, smallest.plan), smallest.failing)
        if with_waits.plan != smallest.plan and self._is_confirmed(with_waits):
            self._accepted[1:] = [with_waits]
            return False
        result = self._confirm()
        del self._accepted[self._accepted.index(result) + 1 if result.is_confirmed else 1 :]
        return False

    def _fails_simulated_too(self, simulated: Plan, screened: Trials, trials: Trials, text: str, plan: Plan) -> bool:
        """Whether a plan fails in any simulated run, which takes less time, and then whether it does on real hosts."""
        tried = self._outcome(screened, text, _on_hosts_of(simulated, plan))
        return tried["failed"] > 0 and self._fails(trials, text, plan)

    def _trials_for(self, plan: Plan, pool: Executor) -> Trials | None:
        """How candidates are tried, by how often this plan fails, which is accepted; None if it does in no run."""
        text = "the run as it was"
        if host_kind(plan.hosts).simulated and (screened := screened_trials(self._attempts, pool, plan)) is not None:
            self._fails(screened, text, plan)
            return screened
        failed = self._outcome(JudgedTrials(self._attempts, OF_ORIGINAL), text, plan)["failed"]
        demand = next((each for each in DEMANDS if failed >= each.failed), None)
        if demand is None:
            return None
        judged = JudgedTrials(self._attempts, demand)
        self._fails(judged, text, plan)
        return judged

    def _fails(self, trials: Trials, text: str, plan: Plan) -> bool:
        """Whether the finding appears in enough runs of the plan, which is then accepted. Raises OutOfTime."""
        tried = self._outcome(trials, text, plan)
        fails = trials.accepts(tried["failed"])
        if fails:
            trials.measure_by(tried["failed"])
            failing = RunDirectory(Path(tried["run"]))
            seed = Plan.read(failing.plan).seed  # in simulation each run has its own
            accepted = _on_hosts_of(self._original, plan).model_copy(update={"seed": seed})
            self._accepted.append(_Accepted(accepted, failing))
        return fails

    def _outcome(self, trials: Trials, text: str, plan: Plan) -> dict[str, Any]:
        """What was recorded of a candidate. If nothing was, it is played."""
        values = plan.model_dump_json(exclude={"command", "versions", "drawn_from"})
        key = hashlib.sha256((trials.label + values).encode()).hexdigest()
        return self._tried.get(key) or self._try(trials, key, text, plan)

    def _try(self, trials: Trials, key: str, text: str, plan: Plan) -> dict[str, Any]:
        """Play a candidate and record how often it failed."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime
        so_far = _size_text(self._accepted[-1].plan if self._accepted else self._original)
        text = text if plan.hosts == self._original.hosts else f"{text}, simulated"
        self._on_event(Tally(f"trying {text}; smallest so far: {so_far}; {left / 60:.0f} min left"))
        began = time.monotonic()
        tried = trials.play(plan)
        line = {"key": key, "text": text, **tried._asdict(), "seconds": round(time.monotonic() - began, 1)}
        with (self._folder / "tried.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        self._tried[key] = line
        self._on_event(Phase(f"{text}: {outcome_text(tried.failed, tried.played)}"))
        return line

    def _confirm(self) -> _Accepted:
        """The smallest accepted plan that fails in CONFIRMED_MIN of CONFIRMATIONS runs; the smallest if none does.

        The last ones may have been accepted by chance. The more was left out, the more rarely a plan fails: a binary
        search finds the last that does so often enough.
        """
        result = self._accepted[-1]
        first, last = 0, len(self._accepted) - 2
        if self._is_confirmed(result):
            return result
        while first <= last:
            middle = (first + last + 1) // 2
            if self._is_confirmed(self._accepted[middle]):
                result, first = self._accepted[middle], middle + 1
            else:
                last = middle - 1
        return result

    def _is_confirmed(self, accepted: _Accepted) -> bool:
        """Whether a plan fails often enough. It is not played on once it cannot, and not again if it was confirmed."""
        if accepted.played:
            return accepted.is_confirmed
        size = _size_text(accepted.plan)
        self._on_event(Phase(f"confirming: {size}, in {CONFIRMATIONS} runs"))
        failed = played = 0
        with closing(self._attempts.of(accepted.plan, CONFIRMATIONS)) as runs:
            for run, is_failing in runs:
                failed, played = failed + is_failing, played + 1
                if is_failing:
                    accepted.failing = run
                if played - failed > CONFIRMATIONS - CONFIRMED_MIN:
                    break
        accepted.failed, accepted.played = failed, played
        self._on_event(Phase(f"{size}: failed in {failed} of {counted(played, 'run')}"))
        return accepted.is_confirmed

    def _write(self, accepted: _Accepted, is_complete: bool) -> Shrunk:
        """Write the files of the result, which is this plan."""
        plan = accepted.plan.model_copy(update={"seed": Plan.read(accepted.failing.plan).seed})
        tried = self._tried.values()
        result = Shrunk(
            self._original,
            plan,
            self._finding,
            accepted.failed,
            accepted.played,
            tried=len(tried),
            seconds=sum(each["seconds"] for each in tried),
            is_complete=is_complete,
            failing=accepted.failing,
            folder=self._folder,
        )
        write_text(self._folder / "plan.toml", toml_of(plan))
        write_text(self._folder / "scenario.py", scenario_of(result))
        write_text(self._folder / "summary.md", summary_of(result, tried))
        return result


def _on_hosts_of(other: Plan, plan: Plan) -> Plan:
    return plan.model_copy(update={name: getattr(other, name) for name in ("hosts", "disk", "inventory")})


def _size_text(plan: Plan) -> str:
    size = size_of(plan)
    return f"{counted(int(size['steps']), 'step')}, {size['seconds']:g} s, {counted(int(size['nodes']), 'node')}"


def _chosen(run: RunDirectory, finding: str | None) -> str:
    """The finding to keep: the one that the user names, or the first of those that made the run fail."""
    names = broken(read_verdict(run.verdict)) if run.verdict.exists() else []
    if not names:
        raise BadInput(f"{run.path}: expected a checked run with a broken guarantee")
    if finding is not None and finding not in names:
        raise BadInput(f"--finding {finding}: expected {' or '.join(names)}, which the run has")
    return finding or names[0]


def _checks_of(run: RunDirectory, finding: str) -> tuple[str, ...]:
    """The checks that reported the finding, each once."""
    findings = read_verdict(run.verdict).findings
    return tuple(dict.fromkeys(each.check for each in findings if each.name == finding and each.severity == "invalid"))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of JSON objects; one that a crash cut off is left out."""
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(ValueError):
            yield json.loads(line)
