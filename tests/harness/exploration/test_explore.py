"""The loop of an exploration: when it ends, and what it leaves; and three planted bugs that it finds."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from harness.exploration import explore as exploring
from harness.exploration.coverage import Coverage
from harness.exploration.drawing import described
from harness.exploration.explore import explore
from harness.exploration.request import ExplorationRequest
from harness.model import EnvironmentFailure, Verdict
from harness.model.errors import EXIT_INVALID
from harness.planning.plan import Plan, read_request
from harness.running.at_once import EndedRun, PendingRun
from results.files import write_text
from results.run_verdict import RunVerdict
from results.store import RunDirectory
from tests.support.command import json_lines, splitbrain_here


class Exploration:
    """Runs whose verdicts are known by their seeds; each takes ten seconds."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, invalid: tuple[int, ...], failing: Collection[int] = ()
    ) -> None:
        self.invalid, self.failing, self.now, self.closed = invalid, failing, 0.0, False
        monkeypatch.setattr(exploring, "ended_together", self.ended_together)
        monkeypatch.setattr(exploring, "judge_run", lambda run, _spark: self.judged(run))
        monkeypatch.setattr(exploring, "coverage_of", lambda _run: Coverage(runs=1, moves=Counter(["stale follower"])))
        monkeypatch.setattr(exploring, "available_actions", lambda _request: {"cut", "kill", "start", "heal_links"})
        starting: Future[None] = Future()
        starting.set_result(None)
        monkeypatch.setattr(exploring, "start_spark", lambda _master: starting)
        monkeypatch.setattr(exploring.time, "monotonic", lambda: self.now)

    def ended_together(
        self, runs: Iterable[PendingRun], *_: Any, keep_going: bool, most: int
    ) -> Iterator[list[EndedRun]]:
        assert most == 1
        try:
            for run in runs:
                directory, plan = run.begin(lambda _event: None)
                write_text(directory.plan, plan.as_json())
                self.now += 10
                error = EnvironmentFailure("no broker registered") if plan.seed in self.failing else None
                if error is not None and not keep_going:
                    raise error
                yield [EndedRun(run, directory, error)]
        finally:
            self.closed = True

    def judged(self, run: RunDirectory) -> RunVerdict:
        seed = Plan.read(run.plan).seed
        verdict = Verdict.INVALID if seed in self.invalid else Verdict.VALID
        return RunVerdict(str(seed), verdict, "", (), (), (), (), {}, "")


def explored(store: Path, **values: Any) -> list[tuple[int, Verdict]]:
    """The seeds of the runs and their verdicts."""
    request = ExplorationRequest(system="reference", seed=7, **values)
    runs = explore(request, store, None, lambda _event: None)
    return [(Plan.read(directory.plan).seed, each.verdict) for directory, each, _ in runs]


def test_exploration_ends_with_the_first_invalid_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = Exploration(monkeypatch, invalid=(9, 10))
    assert explored(tmp_path) == [(7, Verdict.VALID), (8, Verdict.VALID), (9, Verdict.INVALID)]
    assert runs.closed


def test_exploration_goes_on_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Exploration(monkeypatch, invalid=(8,))
    runs = explored(tmp_path, time_limit_seconds=45, keep_going=True)
    assert runs == [(seed, Verdict.INVALID if seed == 8 else Verdict.VALID) for seed in range(7, 12)]


def test_a_run_that_fails_is_unknown_if_the_exploration_keeps_going(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = Exploration(monkeypatch, invalid=(), failing=(8, 9))
    expected = {8: Verdict.UNKNOWN, 9: Verdict.UNKNOWN}
    judged = explored(tmp_path, time_limit_seconds=45, keep_going=True)
    assert judged == [(seed, expected.get(seed, Verdict.VALID)) for seed in range(7, 12)]
    runs.closed = False
    with pytest.raises(EnvironmentFailure, match="no broker registered"):
        explored(tmp_path)
    assert runs.closed


def test_runs_that_fail_one_after_another_end_an_exploration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Exploration(monkeypatch, invalid=(), failing=range(8, 100))
    with pytest.raises(EnvironmentFailure, match="no broker registered"):
        explored(tmp_path, time_limit_seconds=900, keep_going=True)
    assert len(list(tmp_path.glob("*-explore-*"))) == 4


def test_exploration_has_a_run_however_short_the_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Exploration(monkeypatch, invalid=())
    assert explored(tmp_path, time_limit_seconds=1e-9) == [(7, Verdict.VALID)]


def test_run_names_the_command_that_repeats_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Exploration(monkeypatch, invalid=(7,))
    explored(tmp_path)
    (directory,) = [path for path in tmp_path.iterdir() if not path.is_symlink()]
    plan = Plan.read(directory / "plan.json")
    *command, path = shlex.split(plan.command)
    assert command == ["splitbrain", "run", "--plan"]
    repeated = read_request(Path(path), {})
    assert (repeated.story, repeated.switches, repeated.seed) == (plan.story, plan.switches, plan.seed)


def test_runs_are_drawn_from_what_earlier_ones_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Exploration(monkeypatch, invalid=())
    explored(tmp_path, time_limit_seconds=25)
    plans = [Plan.read(path / "plan.json") for path in sorted(tmp_path.iterdir()) if not path.is_symlink()]
    by_seed = {plan.seed: plan.drawn_from for plan in plans}
    assert [by_seed[seed]["runs"] for seed in sorted(by_seed)] == [0, 1, 2]
    assert by_seed[9]["moves"] == {"stale follower": 2}
    texts = {plan.seed: described(plan) for plan in plans}
    assert "no earlier run had" not in texts[7]
    assert "(no earlier run had " in texts[9]
    assert "stale follower" not in texts[9].partition("(no earlier run had")[2]


PLANTED = {"acknowledged-when-appended": 0, "log-not-replayed-on-restart": 5, "fetch-timeout-ignored": 9}
"""Planted bugs, each with a seed whose first run shows it."""


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("mutant", "seed"), PLANTED.items())
def test_planted_bug_is_found_in_the_first_run(mutant: str, seed: int, tmp_path: Path) -> None:
    flags = ["--switch", f"reference.mutant={mutant}", "--seed", seed, "--at-once", "1", "--store", tmp_path, "--json"]
    result = splitbrain_here("explore", *flags, "--time-limit", "1", "--run-seconds", "12")
    assert result.code == EXIT_INVALID, result
    first, *_, tally = json_lines(result)
    assert first["verdict"] == "invalid"
    assert (tally["runs"], tally["invalid"]) == (1, 1)
    assert tally["coverage"]["transitions"]["Candidate > Leader"] >= 1
