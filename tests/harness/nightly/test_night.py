"""A night carries out its jobs within its budget, and resumes where it stopped, however it stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.exploration.coverage import Coverage
from harness.model import BadInput, EnvironmentFailure, Verdict
from harness.model.progress import Event, Tally
from harness.nightly import night as night_module
from harness.nightly.directory import NightDirectory, new_night
from harness.nightly.night import JobResult, Night
from harness.nightly.plan import Entry, NightPlan
from harness.nightly.summary import summary_of
from harness.planning.plan import Plan
from harness.running import at_once
from harness.running.at_once import PendingRun
from harness.running.controller_process import interrupt
from results.files import write_json
from results.run_verdict import RunVerdict, write_verdict
from results.store import RunDirectory, new_run

EXPLORE = [Entry(explore=True, times=3)]
Script = Callable[[Plan, RunDirectory], None]


class Nights:
    """Nights in a store whose runs and judgement are made up; carrying out a run calls `run`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.store = tmp_path / "runs"
        self.events: list[Event] = []
        self.played: list[str] = []
        self.run: Script = lambda _plan, _run: None
        self.verdict = Verdict.VALID
        starting: Future[None] = Future()
        starting.set_result(None)
        for name, value in {
            "start_spark": lambda _master: starting,
            "preflight": lambda _hosts: None,
            "available_actions": lambda _request: {"cut", "kill", "start", "heal_links"},
            "coverage_of": lambda _run: Coverage(runs=1),
            "directory_verdicts": lambda directories, *_, **__: ((each, self.judge(each)) for each in directories),
        }.items():
            monkeypatch.setattr(night_module, name, value)
        monkeypatch.setattr(at_once, "carry_out", self.carry_out)

    def carry_out(self, plan: Plan, run: RunDirectory, *_: object) -> None:
        self.played.append(f"{plan.scenario or plan.name} {plan.side or ''}{plan.seed}")
        run.plan.write_text(plan.as_json())
        run.enter("running", datetime.now(UTC))
        try:
            self.run(plan, run)
        except BaseException:
            interrupt(run)
            raise
        run.enter("recorded", datetime.now(UTC))

    def judge(self, directory: RunDirectory) -> RunVerdict:
        verdict = RunVerdict("run", self.verdict, "as the test has it")
        for run in (*directory.sides(), directory):
            write_verdict(run, verdict)
            run.enter("judged", datetime.now(UTC))
        return verdict

    def begin(self, entries: list[Entry], **values: object) -> NightDirectory:
        plan = NightPlan.model_validate({"seed": 5, "entries": entries, "at_once": 1, **values})
        return new_night(self.store, plan, {}, datetime.now(UTC))

    def night(self, directory: NightDirectory) -> Night:
        return Night(directory, self.store, None, self.events.append)

    def outcomes(self, directory: NightDirectory) -> list[tuple[str, str]]:
        return [_result(result) for result in self.night(directory).results()]


def _result(result: JobResult) -> tuple[str, str]:
    return result.job.id, result.outcome


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Nights:
    return Nights(monkeypatch, tmp_path)


def test_night_carries_out_every_job_and_says_how_far_it_is(made: Nights) -> None:
    directory = made.begin([Entry(scenarios=["PV-01"]), *EXPLORE])
    assert made.outcomes(directory) == [
        ("PV-01 on reference, seed 5", "passed"),
        ("explore on reference, seed 5", "passed"),
        ("explore on reference, seed 6", "passed"),
        ("explore on reference, seed 7", "passed"),
    ]
    assert made.played == ["PV-01 bad5", "PV-01 good5", "explore 5", "explore 6", "explore 7"]
    assert directory.is_finished
    tallies = [event.text for event in made.events if isinstance(event, Tally)]
    assert tallies[0].startswith("1 of 4 jobs: 1 passed")
    assert tallies[-1].startswith("4 of 4 jobs: 4 passed")


def test_command_of_a_scenario_repeats_this_seed(made: Nights) -> None:
    directory = made.begin([Entry(scenarios=["PV-01"], times=2)])
    made.outcomes(directory)
    plans = [Plan.read(run.plan) for run in map(RunDirectory, made.store.glob("2*/*-1"))]
    assert sorted(plan.seed for plan in plans) == [5, 5, 6, 6]
    assert all(f"--seed {plan.seed}" in plan.command for plan in plans)


def test_jobs_that_end_while_others_are_judged_are_judged_together(
    made: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged_together: list[int] = []
    fourth_begins = threading.Event()
    made.run = lambda plan, _run: fourth_begins.set() if plan.seed == 8 else None

    def judged(directories: list[RunDirectory], *_: object, **__: object) -> Iterator[tuple[RunDirectory, RunVerdict]]:
        judged_together.append(len(directories))
        assert fourth_begins.wait(10)
        yield from ((each, made.judge(each)) for each in directories)

    monkeypatch.setattr(night_module, "directory_verdicts", judged)
    outcomes = made.outcomes(made.begin([Entry(explore=True, times=6)]))
    assert outcomes == [(f"explore on reference, seed {seed}", "passed") for seed in range(5, 11)]
    assert max(judged_together) > 1
    assert sum(judged_together) == 6


def test_failed_run_does_not_end_the_night(made: Nights) -> None:
    def fail(plan: Plan, _run: RunDirectory) -> None:
        if plan.seed == 6:
            raise EnvironmentFailure("no memory")

    made.run = fail
    directory = made.begin(EXPLORE)
    results = list(made.night(directory).results())
    assert [result.outcome for result in results] == ["passed", "unknown", "passed"]
    assert results[1].summary.startswith("no memory")
    assert directory.jobs()["explore on reference, seed 6"].outcome == "unknown"


def test_failed_run_that_broke_a_guarantee_counts_as_failed(made: Nights) -> None:
    def fail(_plan: Plan, _run: RunDirectory) -> None:
        raise EnvironmentFailure("not ended in time")

    made.run, made.verdict = fail, Verdict.INVALID
    assert made.outcomes(made.begin([Entry(explore=True)])) == [("explore on reference, seed 5", "failed")]


def test_scenario_with_a_failed_side_does_not_pass(made: Nights) -> None:
    def fail(plan: Plan, _run: RunDirectory) -> None:
        if plan.side == "good":
            raise EnvironmentFailure("no memory")

    made.run = fail
    assert made.outcomes(made.begin([Entry(scenarios=["PV-01"])])) == [("PV-01 on reference, seed 5", "unknown")]


def test_stopped_night_resumes_with_the_jobs_that_are_left(made: Nights) -> None:
    directory = made.begin(EXPLORE)
    results = made.night(directory).results()
    next(results)
    results.close()
    assert not directory.is_finished
    jobs = [job for job, _ in made.outcomes(directory)]
    assert "explore on reference, seed 5" not in jobs
    assert sorted(directory.jobs()) == [f"explore on reference, seed {seed}" for seed in (5, 6, 7)]
    assert all(state.outcome == "passed" for state in directory.jobs().values())
    assert directory.is_finished


def test_run_that_was_recorded_before_a_crash_is_judged_and_not_repeated(made: Nights) -> None:
    directory = made.begin([Entry(explore=True)])
    crashed = _crash(made, directory, "recorded")
    assert made.outcomes(directory) == [("explore on reference, seed 5", "passed")]
    assert made.played == []
    assert crashed.status == "judged"


def test_run_that_was_cut_off_is_repeated_and_both_are_accounted_for(made: Nights) -> None:
    directory = made.begin([Entry(explore=True)])
    crashed = _crash(made, directory, "interrupted")
    assert made.outcomes(directory) == [("explore on reference, seed 5", "passed")]
    assert made.played == ["explore 5"]
    assert crashed.path.is_dir()
    summary = summary_of(directory, made.store)
    assert (summary.interrupted, summary.jobs[0].attempts, summary.jobs[0].outcome) == (1, 2, "passed")


def test_job_that_is_interrupted_again_and_again_is_given_up(made: Nights) -> None:
    directory = made.begin([Entry(explore=True, times=2)])
    for _ in range(3):
        _crash(made, directory, "interrupted")
    assert dict(made.outcomes(directory)) == {
        "explore on reference, seed 5": "unknown",
        "explore on reference, seed 6": "passed",
    }


def _crash(made: Nights, directory: NightDirectory, status: str) -> RunDirectory:
    """A run of the night's first job, left in this status by a night that was killed."""
    run = new_run(made.store, "explore", datetime.now(UTC))
    run.plan.write_text(Plan(name="explore", seed=5, story=[]).as_json())
    write_json(run.origin, {"night": directory.name, "variant": ""})
    run.enter("running", datetime.now(UTC))
    run.enter(status, datetime.now(UTC))  # type: ignore[arg-type]
    directory.record("began", job="explore on reference, seed 5", run=run.name)
    return run


def test_no_run_begins_after_the_time_is_over(made: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = made.begin(EXPLORE, hours=1)
    began = directory.began()
    monkeypatch.setattr(NightDirectory, "began", lambda _self: began - timedelta(minutes=61))
    assert made.outcomes(directory) == []
    assert "its time, 1 h, was over" in summary_of(directory, made.store).headline


def test_no_run_begins_once_the_runs_take_the_disk_space(made: Nights) -> None:
    def write(_plan: Plan, run: RunDirectory) -> None:
        (run.path / "large").write_bytes(b"x" * (2 << 20))

    made.run = write
    directory = made.begin([Entry(explore=True, times=20)], disk_gib=3 / 1024)
    count = len(made.outcomes(directory))
    assert 2 <= count <= 2 + at_once.UNREAD_MAX + 2, "a few runs have begun before the first is measured"
    assert "its runs take" in summary_of(directory, made.store).stopped_by


def test_full_disk_ends_the_night(made: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(night_module, "FREE_FACTOR", 1 << 40)
    directory = made.begin(EXPLORE)
    assert made.outcomes(directory) == []
    assert "of free space" in summary_of(directory, made.store).stopped_by


def test_number_of_jobs_is_limited(made: Nights) -> None:
    assert len(made.outcomes(made.begin(EXPLORE, runs=2))) == 2


def test_scenario_that_cannot_run_is_refused_if_named_and_left_out_of_a_pattern(made: Nights) -> None:
    with pytest.raises(BadInput, match="KAFKA-20734"):
        made.outcomes(made.begin([Entry(scenarios=["KAFKA-20734"])]))
    outcomes = made.outcomes(made.begin([Entry(scenarios=["KAFKA-2073*"]), Entry(explore=True)]))
    assert outcomes == [("explore on reference, seed 5", "passed")]
    assert any("left out: KAFKA-20734 on reference" in str(event) for event in made.events)


def test_explored_runs_are_drawn_from_what_the_night_has_reached(made: Nights) -> None:
    made.outcomes(made.begin([Entry(explore=True, times=12)]))
    plans = sorted(
        (Plan.read(run.plan) for run in map(RunDirectory, made.store.glob("2*"))), key=lambda each: each.seed
    )
    assert plans[0].drawn_from["runs"] == 0
    assert plans[-1].drawn_from["runs"] > 0


def test_pending_runs_have_the_deadline(made: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float | None] = []
    ended_together = at_once.ended_together

    def noted(runs: Iterator[PendingRun], *rest: object, **named: object) -> object:
        def each() -> Iterator[PendingRun]:
            for run in runs:
                seen.append(run.deadline_seconds)
                yield run

        return ended_together(each(), *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(night_module, "ended_together", noted)
    made.outcomes(made.begin([Entry(scenarios=["PV-01"]), Entry(explore=True)], deadline_seconds=77))
    assert seen == [77, 77, 77]


def test_night_that_is_running_is_refused(made: Nights) -> None:
    directory = made.begin(EXPLORE)
    entered, leave = threading.Event(), threading.Event()

    def wait(_plan: Plan, _run: RunDirectory) -> None:
        entered.set()
        leave.wait(10)

    made.run = wait
    thread = threading.Thread(target=lambda: made.outcomes(directory))
    thread.start()
    assert entered.wait(10)
    with pytest.raises(BadInput, match="expected a night that is not running"):
        made.outcomes(directory)
    leave.set()
    thread.join(10)
    assert directory.is_finished
