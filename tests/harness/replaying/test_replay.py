"""The plan of a simulated run for real processes, and which runs are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model.errors import EXIT_USAGE
from harness.model.faults.disks import lose_unsynced
from harness.model.story import ALL, DOWN, LEADER, Step, cut, heal, kill, sleep, start
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.replaying.leaderships import leaders_in_turn
from harness.replaying.replay import plan_for_processes
from harness.replaying.shrunk import toml_of
from results.store import RunDirectory
from tests.support.command import json_lines, splitbrain, splitbrain_here
from tests.support.stored_runs import judged_run, passed_verdict, register_plan


@pytest.mark.parametrize(("step", "disk"), [(cut(LEADER), "directory"), (lose_unsynced(ALL), "ext4")])
def test_processes_get_the_story_and_the_disks_that_it_needs(step: Step, disk: str, tmp_path: Path) -> None:
    story = [StoryStep.of(each).model_dump() for each in (step, heal())]
    simulated = register_plan(story=story, hosts="simulation", disk="directory")
    plan = plan_for_processes(simulated, RunDirectory(tmp_path))
    assert (plan.hosts, plan.disk) == ("netns", disk)
    assert (plan.story, plan.seed, plan.switches) == (simulated.story, simulated.seed, simulated.switches)


def test_run_on_processes_is_refused(tmp_path: Path) -> None:
    run = judged_run(tmp_path, "run", register_plan(), passed_verdict())
    result = splitbrain("replay", run.path, "--on-processes")
    assert (result.code, len(result.messages)) == (EXIT_USAGE, 1)
    assert "--on-processes: expected a simulated run, found one on netns hosts" in result.messages[0]


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.spark
def test_simulated_run_is_played_on_processes(tmp_path: Path) -> None:
    first = splitbrain("run", "--hosts", "simulation", "--time-limit", "5", "--seed", "1", "--store", tmp_path)
    assert "VALID" in first.out, first
    (replayed,) = json_lines(splitbrain("replay", "latest", "--on-processes", "--store", tmp_path, "--json"))
    assert replayed["verdict"] == "valid"
    plans = [Plan.read(Path(replayed[name]) / "plan.json") for name in ("before", "now")]
    assert [plan.hosts for plan in plans] == ["simulation", "netns"]
    assert plans[0].story == plans[1].story


@pytest.mark.netns
@pytest.mark.usefixtures("spark")
def test_timed_run_has_the_same_leaders_in_turn_on_processes(tmp_path: Path) -> None:
    """Each of three leaders fails in another way. By its log and its timers any of the others could follow it."""
    faults = (kill(LEADER), sleep(1), start(DOWN), sleep(3), cut(LEADER), sleep(6), heal(), sleep(1), heal())
    story = [StoryStep.of(step) for step in (sleep(3), *faults)]
    timed = {"hosts": "simulation", "timed": True, "rate": 2.0, "disk": "directory"}
    plan = tmp_path / "plan.toml"
    plan.write_text(toml_of(register_plan(story=story, **timed)))
    first = splitbrain_here("run", "--plan", plan, "--store", tmp_path)
    assert "VALID" in first.out, first
    (replayed,) = json_lines(splitbrain_here("replay", "latest", "--on-processes", "--store", tmp_path, "--json"))
    assert replayed["verdict"] == "valid"
    before, now = (RunDirectory(Path(replayed[name])) for name in ("before", "now"))
    assert leaders_in_turn(now) == leaders_in_turn(before)
    assert len(leaders_in_turn(before)) > 2
    assert [each for each in replayed["differences"] if each["what"] != "verdict"] == []
    played = Plan.read(now.plan)
    assert (played.workload, played.not_started, played.timed) == ("idle", [1, 2, 3], False)
