"""Stored runs with known verdicts, for tests of what is made of many runs. No process is started for them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from harness.model import Finding, Quantity, Verdict
from harness.model.story import LEADER, kill
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from results.headline import SHOWN
from results.run_verdict import ExpectationResult, RunVerdict, write_verdict
from results.store import RunDirectory, new_run

BEGIN: Final = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
LOST: Final = Finding("register", "lost-write", "invalid", "the write of 7 was lost", count=3)


def judged(run: RunDirectory, plan: Plan, verdict: RunVerdict) -> RunDirectory:
    """The run with this plan and verdict; it took 20 s."""
    run.plan.write_text(plan.as_json())
    run.enter("running", BEGIN)
    run.enter("recorded", BEGIN + timedelta(seconds=20))
    write_verdict(run, verdict)
    run.enter("judged", BEGIN + timedelta(seconds=25))
    return run


def judged_run(store: Path, name: str, plan: Plan, verdict: RunVerdict, now: datetime = BEGIN) -> RunDirectory:
    """A new run of a store, with this plan and verdict."""
    return judged(new_run(store, name, now), plan, verdict)


def register_plan(**values: object) -> Plan:
    """The plan of a run of registers under a kill."""
    story = [StoryStep.of(kill(LEADER))]
    return Plan.model_validate({"name": "run", "seed": 7, "workload": "register", "story": story, **values})


def failed_verdict() -> RunVerdict:
    """Lost writes, with one quantity."""
    quantities = (Quantity("availability", "commit_gap_ms", 620.0, "ms"),)
    return RunVerdict("run", Verdict.INVALID, "1 broken guarantee", findings=(LOST,), quantities=quantities)


def passed_verdict() -> RunVerdict:
    """Nothing is broken."""
    return RunVerdict("run", Verdict.VALID, "No broken guarantee.")


def reproduction(store: Path, headlines: Mapping[str, str]) -> RunDirectory:
    """A reproduction of PV-01 whose sides have these headlines, and which failed."""
    whole = new_run(store, "PV-01-reference", BEGIN, "reproduction")
    for side, headline in headlines.items():
        plan = register_plan(name="PV-01", scenario="PV-01", side=side, workload="idle")
        deposed = ExpectationResult("the leader is deposed", "", headline == SHOWN, "leader_deposed", 0.0)
        verdict = RunVerdict("PV-01", Verdict.VALID, "", headline=headline, expectations=(deposed,))
        judged(whole.new_side(side, BEGIN), plan, verdict)
    whole.enter("running", BEGIN)
    whole.enter("recorded", BEGIN)
    write_verdict(whole, RunVerdict("PV-01", Verdict.INVALID, "Not as documented"))
    whole.enter("judged", BEGIN)
    return whole
