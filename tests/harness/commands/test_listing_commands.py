"""Commands that only report: results on standard output as text or JSON lines, and exit 0."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from harness import plugins
from harness.commands.arguments import run_path
from harness.commands.output.tables import table
from harness.model import BadInput, Verdict
from harness.model.errors import EXIT_INVALID, EXIT_VALID
from harness.model.story import LEADER, cut, kill
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.scenarios.description import describe
from harness.scenarios.families import FAMILIES
from nodes.reference.system import check_switches
from results.files import write_text
from results.run_verdict import RunVerdict, write_verdict
from results.store import new_run
from tests.support.command import json_lines, splitbrain, splitbrain_here

LEASE = "three quarters of the fetch timeout"


def test_every_scenario_is_listed():
    result = splitbrain("scenarios")
    assert result.code == EXIT_VALID
    listed = [line.split()[0] for line in result.out.splitlines()[2:] if not line.startswith(" ")]
    assert sorted(listed) == sorted(plugins.scenarios())


def test_every_documented_scenario_runs_by_name():
    documented = {f"{family}-{n:02d}" for family, (count, _) in FAMILIES.items() for n in range(1, count + 1)}
    assert len(documented) == 150
    assert documented <= set(plugins.scenarios())


@pytest.mark.parametrize("identifier", plugins.scenarios())
def test_every_step_of_a_scenario_is_one_of_a_plan(identifier):
    scenario = plugins.scenarios()[identifier]
    steps = [StoryStep.of(step) for side in scenario.sides for step in scenario.story_of(side)]
    assert len(steps) > 1


def test_scenario_shows_how_the_story_of_a_side_differs() -> None:
    out = splitbrain_here("scenarios", "show", "EX-02").out
    good = out[out.index("Good side:") :]
    assert "  after step 15: kill n1\n  after step 15: start n1\n" in good
    assert "without step" not in good
    out = splitbrain_here("scenarios", "show", "EX-03").out
    assert "kafka 4.3.1 with controller.quorum.request.timeout.ms=10000" in out


def test_scenario_shows_the_nodes_of_a_system_that_has_its_own() -> None:
    out = splitbrain_here("scenarios", "show", "LD-01").out
    assert "3 brokers, and ZooKeeper on n4" in out
    assert out.count("  on reference: 4 combined controllers and brokers\n") == 2


def test_scenario_shows_the_nodes_that_its_story_starts() -> None:
    nodes = "4 combined controllers and brokers, of which the story starts n1, n2, n3, n4, workload idle."
    assert nodes in splitbrain_here("scenarios", "show", "EX-13").out


@pytest.mark.parametrize("identifier", plugins.scenarios())
def test_scenario_is_described_with_its_question_and_its_sides(identifier):
    scenario = plugins.scenarios()[identifier]
    text = describe(scenario)
    assert scenario.question in text
    assert ("\nBad side: " in text) is (scenario.bad is not None)
    assert ("\nGood side: " in text) is (scenario.good is not None)
    assert all(expectation.text in text for side in scenario.sides.values() for expectation in side.shows)


def test_scenario_is_shown_by_its_id_in_any_case():
    result = splitbrain_here("scenarios", "show", "pv-01")
    assert result.code == EXIT_VALID
    assert result.out == describe(plugins.scenario("PV-01")) + "\n"


def test_every_scenario_is_listed_for_programs_with_its_sides():
    listed = {each["id"]: each for each in json_lines(splitbrain("scenarios", "--json"))}
    assert set(listed) == set(plugins.scenarios())
    assert listed["PV-01"]["systems"] == {"reference": ["bad", "good"], "kafka": ["bad", "good"]}
    assert (listed["PV-01"]["state"], listed["PV-01"]["reason"]) == ("complete", "")
    assert listed["KAFKA-17754"]["reason"] == "reference has no bad and no good side"


def test_workloads_are_listed_with_their_options():
    listed = {each["workload"]: each for each in json_lines(splitbrain("workloads", "--json"))}
    assert set(listed) == set(plugins.names("workloads"))
    assert "acks=all|1" in listed["log"]["options"]


def test_switches_of_the_reference_are_listed_with_their_defaults():
    listed = {each["switch"]: each for each in json_lines(splitbrain("switches", "reference", "--json"))}
    assert listed["reference.pre_vote"]["default"] == "true"
    check_switches({name: each["default"] for name, each in listed.items() if each["default"] not in ("", LEASE)})


@pytest.mark.parametrize("name", plugins.names("faults"))
def test_a_fault_is_shown_with_an_example_that_a_plan_accepts(name):
    shown = splitbrain_here("faults", "show", name)
    assert shown.code == EXIT_VALID
    for action, arguments in plugins.fault(name).actions.items():
        assert f"\n{action}" in shown.out
        assert arguments is not None
    story = tomllib.loads(shown.out.partition("In a plan file:")[2])["story"]
    assert story
    assert [StoryStep.model_validate(step).f for step in story] == [step["f"] for step in story]


def test_runs_are_listed_oldest_first(store):
    later = new_run(store, "later", datetime(2026, 11, 21, 6, 0, 1, tzinfo=UTC))
    earlier = new_run(store, "earlier", datetime(2026, 11, 21, 6, 0, 0, tzinfo=UTC), "reproduction")
    listed = json_lines(splitbrain("runs", "--store", store, "--json"))
    assert [(each["run"], each["kind"], each["status"], each["verdict"]) for each in listed] == [
        (earlier.name, "reproduction", "created", "-"),
        (later.name, "run", "created", "-"),
    ]
    (newest,) = json_lines(splitbrain("runs", "--store", store, "--limit", "1", "--json"))
    assert newest["run"] == later.name


@pytest.fixture
def recorded(store):
    """A run that was recorded in 12 seconds."""
    run = new_run(store, "chaos", datetime(2026, 11, 21, 6, 0, 0, tzinfo=UTC))
    story = [StoryStep.of(step) for step in (cut(LEADER), kill("n1"))]
    write_text(run.plan, Plan(name="chaos", seed=1, workload="register", story=story).as_json())
    run.enter("running", datetime(2026, 11, 21, 6, 0, 1, tzinfo=UTC))
    run.enter("recorded", datetime(2026, 11, 21, 6, 0, 13, tzinfo=UTC))
    return run


def test_a_run_is_listed_with_what_it_was(store, recorded):
    (listed,) = json_lines(splitbrain("runs", "--store", store, "--json"))
    expected = {
        "run": recorded.name, "kind": "run", "system": "reference", "workload": "register",
        "faults": ["kill", "partition"], "seconds": 12.0, "status": "recorded", "verdict": "-", "outcome": None,
    }  # fmt: skip
    assert listed | expected == listed


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        (["--system", "reference"], 1),
        (["--system", "kafka"], 0),
        (["--workload", "register", "--fault", "kill"], 1),
        (["--fault", "clock"], 0),
        (["--status", "recorded"], 1),
        (["--verdict", "invalid"], 0),
    ],
)
def test_runs_are_filtered(store, recorded, flags, count):  # noqa: ARG001
    assert len(json_lines(splitbrain_here("runs", "--store", store, *flags, "--json"), least=0)) == count


@pytest.mark.parametrize("word", ["latest", "20261121T060000Z-ch", "name"])
def test_a_run_is_found_by_name_prefix_or_as_the_latest(store, recorded, word):
    assert run_path(recorded.name if word == "name" else word, store) == store / recorded.name
    assert (store / "latest").readlink() == Path(recorded.name)


def test_latest_failed_is_the_newest_run_with_a_broken_guarantee(store, recorded):  # noqa: ARG001
    with pytest.raises(BadInput, match="or latest-failed"):
        run_path("latest-failed", store)
    for hour, verdict in enumerate((Verdict.VALID, Verdict.INVALID, Verdict.INVALID, Verdict.UNKNOWN), 7):
        run = new_run(store, "chaos", datetime(2026, 11, 21, hour, 0, 0, tzinfo=UTC))
        write_verdict(run, RunVerdict("register", verdict, ""))
        if verdict is Verdict.INVALID:
            failed = run
    new_run(store, "chaos", datetime(2026, 11, 21, 20, 0, 0, tzinfo=UTC))
    assert run_path("latest-failed", store) == failed.path


def test_a_word_for_no_run_or_for_several_is_bad_input(store, recorded):  # noqa: ARG001
    new_run(store, "chaos", datetime(2026, 11, 21, 6, 0, 0, tzinfo=UTC))
    for word, found in (("2026", "expected one run"), ("nothing", "expected a path, or the name of a run")):
        with pytest.raises(BadInput, match=found):
            run_path(word, store)


def test_a_settled_plan_is_printed_and_nothing_runs(store):
    flags = ["--faults", "kill", "--time-limit", "20", "--seed", "3", "--store", store]
    planned = splitbrain("run", *flags, "--dry-run")
    assert planned.code == EXIT_VALID
    plan = Plan.model_validate_json(planned.out)
    assert (plan.seed, "kill" in {step.f for step in plan.story}) == (3, True)
    both = splitbrain("reproduce", "PV-01", "--store", store, "--dry-run")
    assert both.out.count('"scenario": "PV-01"') == 2
    assert not store.exists() or list(store.iterdir()) == []


def test_tables_fit_the_terminal_and_lose_nothing():
    rows = [("partition", "a long description that does not fit into the width", "netns")]
    text = table(("fault", "description", "hosts"), rows, 40)
    assert max(map(len, text.splitlines())) <= 40
    assert "".join(text.split()).count("width") == 1
    assert max(map(len, table(("fault", "description", "hosts"), rows, None).splitlines())) > 40


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_shows_an_example_and_the_exit_codes(flag):
    shown = splitbrain("run", flag).out
    assert "splitbrain run --workload register" in shown
    assert "254 bad input" in shown


def test_version_is_that_of_the_package():
    assert splitbrain("--version").out == f"splitbrain {version('splitbrain')}\n"


def test_doctor_shows_a_fix_for_everything_that_does_not_work():
    result = splitbrain("doctor", "--format", "json")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert {"namespace tools", "namespace hosts", "Python"} <= {each["name"] for each in found}
    assert [each["name"] for each in found if not each["works"] and not each["fix"]] == []
    failed = [each for each in found if each["needed"] and not each["works"]]
    assert result.code == (EXIT_INVALID if failed else EXIT_VALID)


@pytest.mark.netns
def test_fault_is_available_if_the_hosts_or_the_system_have_what_it_needs() -> None:
    listed = {each["fault"]: each["here"] for each in json_lines(splitbrain("faults", "--hosts", "netns", "--json"))}
    assert {name for name, here in listed.items() if here == "available"} >= {"partition", "kill", "probe"}
    only = "only a cluster with brokers has partitions, topics and sessions; use --layout combined"
    assert listed["requests"] == only


def test_request_and_tool_are_described_by_what_they_send_and_what_is_expected() -> None:
    shown = describe(plugins.scenario("PV-22")), describe(plugins.scenario("DQ-05"))
    assert "ask n1 for vote, version 2 (a pre-vote while n1 fetches), with cluster_id=$cluster_id" in shown[0]
    assert "pre_vote=True, voter_id=$node; expect partition.vote_granted False\n" in shown[0]
    assert "run kafka-metadata-quorum --bootstrap-controller $controllers describe --status (the status)" in shown[1]
    assert "; expect exit code 0, output like LeaderId:" in shown[1]
    assert "{" not in shown[0] + shown[1]


def test_story_of_a_side_that_differs_much_is_shown_whole() -> None:
    shown = describe(plugins.scenario("RA-22"))
    assert "  its own story:\n    1. wait until all nodes follow one leader\n" in shown
