"""A failing run is shrunk, resumes, and leaves a plan and a scenario that play the same story."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import pytest

from harness.model import BadInput, Verdict
from harness.model.conditions import ALL_FOLLOW_LEADER
from harness.model.errors import EXIT_USAGE, EXIT_VALID
from harness.model.faults.membership import await_membership
from harness.model.scenario import Scenario
from harness.model.story import ALL, LEADER, cut, heal, kill, mark, sleep, start, wait_until
from harness.planning.plan import Plan, read_request
from harness.planning.story_steps import StoryStep
from harness.replaying import attempts, trials
from harness.replaying import shrink as shrink_module
from harness.replaying.attempts import Attempts, broken
from harness.replaying.shrink import Shrinking
from harness.replaying.shrunk import CONFIRMATIONS, Shrunk, size_of
from harness.replaying.trials import SCREENED
from harness.running import at_once
from results.run_verdict import RunVerdict, write_verdict
from results.store import RunDirectory
from tests.support.command import json_lines, splitbrain
from tests.support.stored_runs import LOST, failed_verdict, judged_run, passed_verdict, register_plan

STORY = [
    mark("a"),
    cut(LEADER),
    sleep(4),
    heal(),
    mark("b"),
    kill(LEADER),
    sleep(3),
    heal(),
    mark("c"),
    cut(ALL),
    heal(),
]


class Machine:
    """Runs that fail if their story kills a node, without playing it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.played: list[Plan] = []
        self.screened: list[Plan] = []
        story = [StoryStep.of(step).model_dump() for step in STORY]
        plan = register_plan(story=story, nodes=5, name="explore")
        self.run = judged_run(tmp_path / "runs", "explore", plan, failed_verdict())
        starting: Future[None] = Future()
        starting.set_result(None)
        monkeypatch.setattr(shrink_module, "start_spark", lambda _master: starting)
        monkeypatch.setattr(shrink_module, "preflight", lambda _hosts: None)
        monkeypatch.setattr(shrink_module, "judge_run", lambda run, _spark: self.judge(run))
        monkeypatch.setattr(Attempts, "_showing", self.showing)
        monkeypatch.setattr(at_once, "carry_out", self.carry_out)
        monkeypatch.setattr(shrink_module, "processes", lambda _at_once: ThreadPoolExecutor(1))
        monkeypatch.setattr(trials, "_reason", lambda plan: self.screen(plan))

    def carry_out(self, plan: Plan, run: RunDirectory, *_: object) -> None:
        self.played.append(plan)
        run.plan.write_text(plan.as_json())
        run.enter("running", datetime.now(UTC))
        run.enter("recorded", datetime.now(UTC))

    def judge(self, run: RunDirectory) -> RunVerdict:
        fails = any(step.f == "kill" for step in Plan.read(run.plan).story)
        verdict = RunVerdict("run", Verdict.INVALID, "", findings=(LOST,)) if fails else passed_verdict()
        write_verdict(run, verdict)
        return verdict

    def screen(self, plan: Plan) -> str | None:
        self.screened.append(plan)
        return self.reason(plan)

    def reason(self, plan: Plan) -> str | None:
        return "a broken invariant" if any(step.f == "kill" for step in plan.story) else None

    def showing(self, runs: Sequence[RunDirectory]) -> set[Path]:
        return {run.path for run in runs if "lost-write" in broken(self.judge(run))}

    def shrink(self, finding: str | None = None, seconds: float = 60) -> Shrunk:
        return Shrinking(self.run, finding, seconds, 1, None, lambda _event: None).shrink()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def test_smallest_plan_is_found_confirmed_and_written(machine: Machine) -> None:
    result = machine.shrink()
    assert [step.f for step in result.plan.story] == ["kill"]
    assert (result.plan.nodes, result.plan.seed, result.failed, result.is_confirmed) == (3, 7, 5, True)
    assert result.is_complete
    assert result.failing.verdict.exists()
    request = read_request(result.folder / "plan.toml", {})
    assert (request.story, request.nodes, request.seed) == (result.plan.story, 3, 7)
    assert "| steps | 11 | 1 |" in (result.folder / "summary.md").read_text()
    kept = [path for path in (result.folder / "runs").iterdir() if path.is_dir() and not path.is_symlink()]
    verdicts = [json.loads(RunDirectory(path).verdict.read_text())["verdict"] for path in kept]
    assert set(verdicts) == {"invalid"}, "runs that did not fail are removed"


def test_size_counts_the_faults_and_neither_waits_nor_what_ends_a_fault() -> None:
    steps = (cut(LEADER), wait_until(ALL_FOLLOW_LEADER), await_membership(), heal(), kill(LEADER), sleep(1), start())
    assert size_of(register_plan(story=[StoryStep.of(step).model_dump() for step in steps]))["faults"] == 2


def test_scenario_is_a_value_of_the_catalogue(machine: Machine) -> None:
    result = machine.shrink()
    names: dict[str, object] = {}
    exec((result.folder / "scenario.py").read_text(), names)
    scenario = names["SCENARIO"]
    assert isinstance(scenario, Scenario)
    assert [StoryStep.of(step) for step in scenario.story] == result.plan.story
    assert scenario.bad is not None
    assert scenario.bad.breaks == ("lost-write",)


def test_shrinking_resumes_without_repeating_what_was_tried(machine: Machine) -> None:
    first = machine.shrink()
    played, screened = len(machine.played), len(machine.screened)
    again = machine.shrink()
    assert again.plan == first.plan
    assert len(machine.played) - played == 1 + CONFIRMATIONS, "one run says which reasons show the finding"
    assert len(machine.screened) - screened == SCREENED
    assert again.tried == first.tried


def test_plan_that_fails_rarely_is_not_the_result(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill alone fails when it is tried, and not again; with the pause after it, it always fails."""
    count = [0]

    def judge(run: RunDirectory) -> RunVerdict:
        names = [step.f for step in Plan.read(run.plan).story]
        count[0] += "sleep" not in names
        fails = "kill" in names and ("sleep" in names or count[0] <= 2)
        verdict = RunVerdict("run", Verdict.INVALID, "", findings=(LOST,)) if fails else passed_verdict()
        write_verdict(run, verdict)
        return verdict

    monkeypatch.setattr(machine, "judge", judge)
    result = machine.shrink()
    assert result.is_confirmed
    assert [step.f for step in result.plan.story if step.f in ("kill", "sleep")] == ["kill", "sleep"]
    assert result.failing.verdict.exists()


@pytest.mark.parametrize(
    ("of_original", "of_rare", "is_accepted"),
    [
        ("11111", "01111", True),
        ("10111", "01101", False),
        ("10101", "01100", True),
        ("10100", "01000", False),
        ("00001", "00100", True),
        ("00001", "00011", False),
    ],
)
def test_candidates_have_to_fail_as_often_as_the_original(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, of_original: str, of_rare: str, is_accepted: bool
) -> None:
    """Of five runs of a plan, those with a 1 fail. A kill without its pause fails otherwise than the original."""
    played: Counter[str] = Counter()

    def judge(run: RunDirectory) -> RunVerdict:
        plan = Plan.read(run.plan)
        names = [step.f for step in plan.story]
        pattern = {("kill",): of_rare, tuple(step.f for step in STORY): of_original}.get(tuple(names))
        key = plan.model_dump_json(exclude={"command"})
        fails = "kill" in names and (pattern is None or pattern[played[key] % 5] == "1")
        played[key] += 1
        verdict = RunVerdict("run", Verdict.INVALID, "", findings=(LOST,)) if fails else passed_verdict()
        write_verdict(run, verdict)
        return verdict

    monkeypatch.setattr(machine, "judge", judge)
    monkeypatch.setattr(shrink_module, "in_simulation", lambda _plan, _report: None)
    shrinking = Shrinking(machine.run, None, 60, 1, None, lambda _event: None)
    shrinking.shrink()
    assert any([step.f for step in plan.story] == ["kill"] for plan in machine.played)
    assert is_accepted == any([step.f for step in each.plan.story] == ["kill"] for each in shrinking._accepted)


def test_plan_is_reduced_in_simulation_and_confirmed_on_its_own_hosts(machine: Machine) -> None:
    result = machine.shrink()
    hosts = [kind for kind, _ in groupby(plan.hosts for plan in machine.played)]
    assert hosts == ["netns", "simulation", "netns"]
    assert (result.plan.hosts, Plan.read(result.failing.plan).hosts) == ("netns", "netns")
    on_hosts = [plan for plan in machine.played if plan.hosts == "netns"]
    assert len(on_hosts) <= 2 * CONFIRMATIONS, "the original and the result only"
    assert {plan.hosts for plan in machine.screened} == {"simulation"}
    assert {plan.seed for plan in machine.screened} == set(range(7, 7 + SCREENED))
    assert {plan.seed for plan in on_hosts} == {7}


def test_what_fails_in_simulation_alone_is_not_the_result(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """On its own hosts, the story fails with the pause after the kill only."""
    judge_any = machine.judge

    def judge(run: RunDirectory) -> RunVerdict:
        plan = Plan.read(run.plan)
        needed = {"kill"} if plan.hosts == "simulation" else {"kill", "sleep"}
        return judge_any(run) if needed <= {step.f for step in plan.story} else passed_verdict()

    monkeypatch.setattr(machine, "judge", judge)
    result = machine.shrink()
    assert result.is_confirmed
    assert sorted(step.f for step in result.plan.story) == ["kill", "sleep"]
    assert result.plan.hosts == "netns"
    on_hosts = [plan for plan in machine.played if plan.hosts == "netns"]
    assert all("kill" in {step.f for step in plan.story} for plan in on_hosts), "simulation shows that the others pass"
    with_waits = [step.f for step in STORY if step.f in ("await", "sleep", "mark")]
    assert any(sorted(step.f for step in plan.story) == sorted(["kill", *with_waits]) for plan in on_hosts)


@pytest.mark.parametrize(
    ("of_original", "of_rare", "is_accepted"),
    [(20, 16, True), (20, 15, False), (5, 4, True), (5, 3, False), (1, 1, True)],
)
def test_simulated_candidates_have_to_fail_nearly_as_often_as_the_best(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, of_original: int, of_rare: int, is_accepted: bool
) -> None:
    """So many of SCREENED runs fail: fewer where the story is a kill without its pause."""

    def reason(plan: Plan) -> str | None:
        names = [step.f for step in plan.story]
        failing = of_rare if "sleep" not in names else of_original
        return "a broken invariant" if "kill" in names and 7 + SCREENED - plan.seed <= failing else None

    monkeypatch.setattr(machine, "reason", reason)
    shrinking = Shrinking(machine.run, None, 60, 1, None, lambda _event: None)
    result = shrinking.shrink()
    assert ([step.f for step in result.plan.story] == ["kill"]) == is_accepted
    assert result.plan.seed == 7 + SCREENED - (of_rare if is_accepted else of_original)


def test_only_reasons_that_go_with_the_finding_count(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second run that kills a node breaks another invariant, which does not show the finding."""
    judge_any = machine.judge

    def judge(run: RunDirectory) -> RunVerdict:
        plan = Plan.read(run.plan)
        return passed_verdict() if plan.hosts == "simulation" and plan.seed % 2 else judge_any(run)

    def reason(plan: Plan) -> str | None:
        names = {step.f for step in plan.story}
        if plan.seed % 2:
            return "another invariant" if "cut" in names else None
        return "a broken invariant" if "kill" in names else None

    monkeypatch.setattr(machine, "judge", judge)
    monkeypatch.setattr(machine, "reason", reason)
    result = machine.shrink()
    assert [step.f for step in result.plan.story] == ["kill"]
    assert result.plan.seed == 8


def test_simulated_candidate_whose_runs_do_not_show_the_finding_is_rejected(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the pause, simulated runs break an invariant but do not show the finding."""
    judge_any = machine.judge
    simulated: list[Plan] = []

    def judge(run: RunDirectory) -> RunVerdict:
        plan = Plan.read(run.plan)
        if plan.hosts != "simulation":
            return judge_any(run)
        simulated.append(plan)
        return judge_any(run) if "sleep" in {step.f for step in plan.story} else passed_verdict()

    monkeypatch.setattr(machine, "judge", judge)
    assert sorted(step.f for step in machine.shrink().plan.story) == ["kill", "sleep"]
    assert any("sleep" not in {step.f for step in plan.story} for plan in simulated), "such a run was judged"


def test_what_simulation_does_not_show_is_reduced_on_the_hosts_of_the_run(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_any = machine.judge

    def judge(run: RunDirectory) -> RunVerdict:
        return passed_verdict() if Plan.read(run.plan).hosts == "simulation" else judge_any(run)

    monkeypatch.setattr(machine, "judge", judge)
    monkeypatch.setattr(machine, "reason", lambda _plan: None)
    assert [step.f for step in machine.shrink().plan.story] == ["kill"]
    assert sum(plan.hosts == "simulation" for plan in machine.played) == 5


def test_interrupted_shrinking_leaves_the_smallest_plan_and_goes_on_from_there(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = machine.reason

    def interrupted(plan: Plan) -> str | None:
        if len(machine.screened) > 4 * SCREENED:
            raise KeyboardInterrupt
        return reason(plan)

    monkeypatch.setattr(machine, "reason", interrupted)
    with pytest.raises(KeyboardInterrupt):
        machine.shrink()
    (folder,) = (machine.run.path.parent.parent / "shrinks").iterdir()
    assert "was not confirmed: shrinking was interrupted" in (folder / "summary.md").read_text()
    smaller = read_request(folder / "plan.toml", {}).story
    assert len(smaller) < len(STORY)
    monkeypatch.setattr(machine, "reason", reason)
    before = len(machine.played)
    assert [step.f for step in machine.shrink().plan.story] == ["kill"]
    again = [plan.story for plan in machine.played[before:] if plan.hosts == "netns"]
    assert Plan.read(machine.run.plan).story not in again, "the original is not played again"


def test_plan_that_the_system_does_not_support_is_not_played(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(plan: Plan) -> None:
        if plan.nodes < 5:
            raise BadInput("too few nodes")

    monkeypatch.setattr(attempts, "refuse_impossible", refuse)
    assert machine.shrink().plan.nodes == 5
    assert {plan.nodes for plan in machine.played} == {5}


def test_time_limit_leaves_the_smallest_plan_so_far(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def monotonic() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(shrink_module.time, "monotonic", monotonic)
    result = machine.shrink(seconds=12)
    assert not result.is_complete
    assert 0 < len(result.plan.story) <= len(STORY)
    assert "The time was over" in (result.folder / "summary.md").read_text()
    assert tomllib.loads((result.folder / "plan.toml").read_text())["seed"] == 7


def test_run_that_does_not_fail_again_is_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "judge", lambda _run: passed_verdict())
    with pytest.raises(BadInput, match="lost-write: expected a run that fails again, found none in 5 attempts"):
        machine.shrink()
    assert len(machine.played) == 5


@pytest.mark.parametrize("finding", ["two-leaders-in-one-epoch", ""])
def test_finding_that_the_run_does_not_have_is_refused(machine: Machine, finding: str) -> None:
    with pytest.raises(BadInput, match=r"--finding .*: expected lost-write, which the run has"):
        machine.shrink(finding)


def test_run_that_passed_is_refused(tmp_path: Path) -> None:
    run = judged_run(tmp_path, "run", register_plan(), passed_verdict())
    result = splitbrain("shrink", run.path)
    assert (result.code, len(result.messages)) == (EXIT_USAGE, 1)
    assert "expected a checked run with a broken guarantee" in result.messages[0]


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_real_run_is_played_again_and_shrunk(tmp_path: Path) -> None:
    """Half of the voters are a majority: cutting all links is enough, and the rest of the story is not needed."""
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'switch = { "reference.mutant" = "half-is-a-majority" }\nseed = 3\nrate = 20\n'
        '[[story]]\nf = "await"\nvalue = { condition = { name = "all_follow_leader" }, within_seconds = 60 }\n'
        '[[story]]\nf = "pause"\nvalue = { who = "follower" }\n[[story]]\nf = "heal"\n'
        '[[story]]\nf = "cut"\nvalue = { who = "all", direction = "both" }\n[[story]]\nf = "sleep"\nvalue = 4\n'
    )
    store = tmp_path / "runs"
    first = splitbrain("run", "--plan", plan, "--store", store)
    assert "INVALID" in first.out, first
    again = splitbrain("replay", "latest", "--store", store, "--json")
    (replayed,) = json_lines(again)
    assert replayed["verdict"] == "invalid", again.messages
    assert {each["what"] for each in replayed["quantities"]} >= {"longest commit gap"}
    name = Path(replayed["before"]).name
    shrunk = splitbrain(
        "shrink", store / name, "--time-limit", "60", "--finding", "two-leaders-in-one-epoch", "--json",
        "--at-once", "3", timeout_seconds=300,
    )  # fmt: skip
    assert shrunk.code == EXIT_VALID, shrunk
    (result,) = json_lines(shrunk)
    assert result["failed"] >= 4
    if result["complete"]:  # a busy machine may be too slow
        assert result["after"]["faults"] == 1
        assert result["after"]["steps"] < result["before"]["steps"]
