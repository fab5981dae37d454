"""Shrinks a failing run: finds the smallest story, cluster and load that still show the same finding.

    shrunk = Shrinking(run, finding=None, time_limit_seconds=1800, …).shrink()

A candidate is played up to ATTEMPTS times, several at a time. If most runs of the original show the finding, most runs
of a candidate have to; otherwise one is enough. Accepted at one failure in three, stories that fail ever more rarely
would follow each other. What was tried is on disk, in `results/shrinks/RUN/`, so the same command resumes where an
interrupted one stopped:

    tried.jsonl     one line per candidate        runs/           the runs that failed; others are removed
    plan.toml       the smallest plan so far      scenario.py     the same as a value for the catalogue
    summary.md      what was removed, and how often the result fails

Contains playing and recording. What is tried in which order is in harness.replaying.reductions, the texts in
harness.replaying.shrunk.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.exploration.explore import begin_run
from harness.judging.runs import judge_run
from harness.judging.spark import StartingSpark, start_spark
from harness.model import BadInput, SplitbrainError
from harness.model.plurals import counted
from harness.model.progress import OnEvent, Phase, Tally
from harness.planning.plan import Plan, request_of
from harness.planning.preflight import preflight
from harness.recovery.heal import heal_before_a_run
from harness.replaying.reductions import reduced
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
from harness.running.at_once import PendingRun, ended_runs
from harness.running.run import refuse_impossible
from results.files import write_text
from results.run_verdict import RunVerdict, read_verdict
from results.store import RunDirectory

ATTEMPTS: Final = 3
MAJORITY: Final = 2
"""How many runs of a candidate have to fail, if so many of the original's do."""
DEADLINE_SECONDS: Final = 600.0
"""A run that takes longer is ended, and does not show the finding."""
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
        self._needed = 1
        self._tried = {each["key"]: each for each in _lines(self._folder / "tried.jsonl")}
        self._accepted: list[tuple[Plan, RunDirectory]] = []

    def shrink(self) -> Shrunk:
        """Reduce the plan until nothing more can be left out or the time is over, and confirm the result.

        Raises BadInput if the run does not fail again, OSError where nothing can be written.
        """
        preflight(self._original.hosts)
        self._store.mkdir(parents=True, exist_ok=True)
        for line in heal_before_a_run(self._store):
            self._on_event(Phase(line))
        self._starting: StartingSpark = start_spark(self._master)
        try:
            is_complete = self._reduce()
            if not self._accepted:
                raise BadInput("--time-limit: expected time for at least one attempt")
            at, failed, played = self._confirm()
        except KeyboardInterrupt:
            if self._accepted:
                self._write(len(self._accepted) - 1, failed=0, played=0, is_complete=False)
            raise
        return self._write(at, failed, played, is_complete)

    def _reduce(self) -> bool:
        """Reduce the plan; whether that went to its end before the time was over."""
        try:
            if not self._original_fails():
                raise BadInput(f"{self._finding}: expected a run that fails again, found none in {ATTEMPTS} attempts")
            reduced(self._original, self._fails)
        except OutOfTime:
            return False
        return True

    def _original_fails(self) -> bool:
        """Whether the original fails in any of ATTEMPTS runs; how many do decides what is needed of a candidate."""
        tried = self._outcome("the run as it was", self._original, ATTEMPTS)
        is_accepted = self._accept(self._original, tried)
        self._needed = MAJORITY if tried["failed"] >= MAJORITY else 1
        return is_accepted

    def _fails(self, text: str, plan: Plan) -> bool:
        """Whether the finding appears in enough of ATTEMPTS runs of the plan. Raises OutOfTime."""
        return self._accept(plan, self._outcome(text, plan, self._needed))

    def _accept(self, plan: Plan, tried: Mapping[str, Any]) -> bool:
        is_accepted = bool(tried["failed"] >= self._needed)
        if is_accepted:
            self._accepted.append((plan, RunDirectory(Path(tried["run"]))))
        return is_accepted

    def _outcome(self, text: str, plan: Plan, enough: int) -> dict[str, Any]:
        """What was recorded of a candidate. If nothing was, it is played until so many runs have failed."""
        key = hashlib.sha256(plan.model_dump_json(exclude={"command", "versions", "drawn_from"}).encode()).hexdigest()
        return self._tried.get(key) or self._try(key, text, plan, enough)

    def _try(self, key: str, text: str, plan: Plan, enough: int) -> dict[str, Any]:
        """Play a candidate and record how often it failed."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime
        so_far = _size_text(self._accepted[-1][0] if self._accepted else self._original)
        self._on_event(Tally(f"trying {text}; smallest so far: {so_far}; {left / 60:.0f} min left"))
        began = time.monotonic()
        failed = played = 0
        path = None
        with closing(self._plays(plan, ATTEMPTS)) as plays:
            for run, is_failing in plays:
                failed, played = failed + is_failing, played + 1
                path = str(run.path) if is_failing else path
                if failed >= enough or failed + ATTEMPTS - played < self._needed:
                    break
        seconds = round(time.monotonic() - began, 1)
        tried = {"key": key, "text": text, "failed": failed, "played": played, "run": path, "seconds": seconds}
        with (self._folder / "tried.jsonl").open("a") as file:
            file.write(json.dumps(tried) + "\n")
        self._tried[key] = tried
        self._on_event(Phase(f"{text}: {outcome_text(failed, played)}"))
        return tried

    def _confirm(self) -> tuple[int, int, int]:
        """Choose the smallest accepted plan that fails in CONFIRMED_MIN of CONFIRMATIONS runs.

        Returns its position among the accepted ones, how often it failed, and how often it was played.

        The last ones may have been accepted by chance. The more was left out, the more rarely a plan fails: a binary
        search finds the last that does so often enough.
        """
        smallest = len(self._accepted) - 1
        best = (smallest, *self._confirmed(smallest))
        first, last = 0, smallest - 1 if best[1] < CONFIRMED_MIN else -1
        while first <= last:
            middle = (first + last + 1) // 2
            failed, played = self._confirmed(middle)
            if failed >= CONFIRMED_MIN:
                best, first = (middle, failed, played), middle + 1
            else:
                last = middle - 1
        return best

    def _confirmed(self, at: int) -> tuple[int, int]:
        """How often an accepted plan fails, of how many runs; it is not played on once it cannot fail often enough."""
        plan, _ = self._accepted[at]
        self._on_event(Phase(f"confirming: {_size_text(plan)}, in {CONFIRMATIONS} runs"))
        failed = played = 0
        with closing(self._plays(plan, CONFIRMATIONS)) as plays:
            for run, is_failing in plays:
                failed, played = failed + is_failing, played + 1
                if is_failing:
                    self._accepted[at] = plan, run
                if played - failed > CONFIRMATIONS - CONFIRMED_MIN:
                    break
        self._on_event(Phase(f"{_size_text(plan)}: failed in {failed} of {counted(played, 'run')}"))
        return failed, played

    def _plays(self, plan: Plan, times: int) -> Generator[tuple[RunDirectory, bool], None, None]:
        """The runs of a plan as they end, and whether each shows the finding; those that do not are removed.

        None for a plan that the system or the hosts do not support.
        """
        try:
            refuse_impossible(plan)
        except BadInput:
            return
        begin = partial(begin_run, plan, request_of(plan), self._store)
        pending = PendingRun(plan, begin, deadline_seconds=DEADLINE_SECONDS)
        before, failing = set(self._store.iterdir()), set()
        try:
            # The runs' own events are not reported: many short ones take place.
            with closing(ended_runs([pending] * times, self._at_once, lambda _: None, keep_going=True)) as ended:
                for directory in (each.directory for each in ended if each.directory is not None):
                    is_failing = self._shows(directory)
                    failing |= {directory.path} if is_failing else set()
                    yield directory, is_failing
        finally:
            for path in set(self._store.iterdir()) - before - failing:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)

    def _shows(self, run: RunDirectory) -> bool:
        """Whether a run shows the finding; one that cannot be checked does not."""
        try:
            return self._finding in _broken(judge_run(run, self._starting.result()))
        except SplitbrainError:
            return False

    def _write(self, at: int, failed: int, played: int, is_complete: bool) -> Shrunk:
        """Write the files of the result, which is this accepted plan."""
        plan, failing = self._accepted[at]
        tried = self._tried.values()
        seconds = sum(each["seconds"] for each in tried)
        result = Shrunk(
            self._original, plan, self._finding, failed, played, len(tried), seconds, is_complete, failing, self._folder
        )
        write_text(self._folder / "plan.toml", toml_of(plan))
        write_text(self._folder / "scenario.py", scenario_of(result))
        write_text(self._folder / "summary.md", summary_of(result, tried))
        return result


def _size_text(plan: Plan) -> str:
    size = size_of(plan)
    return f"{counted(int(size['steps']), 'step')}, {size['seconds']:g} s, {counted(int(size['nodes']), 'node')}"


def _chosen(run: RunDirectory, finding: str | None) -> str:
    """The finding to keep: the one that the user names, or the first of those that made the run fail."""
    names = _broken(read_verdict(run.verdict)) if run.verdict.exists() else []
    if not names:
        raise BadInput(f"{run.path}: expected a checked run with a broken guarantee")
    if finding is not None and finding not in names:
        raise BadInput(f"--finding {finding}: expected {' or '.join(names)}, which the run has")
    return finding or names[0]


def _broken(verdict: RunVerdict) -> list[str]:
    """The names of the broken guarantees, each once."""
    return list(dict.fromkeys(each.name for each in verdict.findings if each.severity == "invalid"))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of JSON objects; one that a crash cut off is left out."""
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(ValueError):
            yield json.loads(line)
