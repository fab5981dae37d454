"""A real night that is killed resumes: every run is accounted for, and nothing is left on the machine."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from harness.judging.index import index
from harness.model.errors import EXIT_INVALID, EXIT_USAGE, EXIT_VALID
from harness.nightly.directory import nights
from tests.support.command import (
    json_lines,
    processes_naming,
    splitbrain,
    splitbrain_here,
    start_splitbrain,
    wait_until,
)

pytestmark = [pytest.mark.netns, pytest.mark.spark, pytest.mark.timeout(280)]

PLAN = """
name = "short"
hours = 1
seed = 4
at_once = 2

[[entries]]
scenarios = ["PV-15"]

[[entries]]
explore = true
switches = [{}, { "reference.mutant" = "half-is-a-majority" }]
run_seconds = 5
times = 1
"""
JOBS = {
    "PV-15 on reference, seed 4",
    "explore on reference, seed 4",
    "explore on reference with reference.mutant=half-is-a-majority, seed 4",
}


@pytest.mark.usefixtures("spark")
def test_night_that_is_killed_resumes_and_accounts_for_every_run(tmp_path: Path) -> None:
    store, plan = tmp_path / "runs", tmp_path / "night.toml"
    plan.write_text(PLAN)
    command = start_splitbrain("nightly", plan, "--store", store)
    wait_until(lambda: list(store.glob("*/**/history/*.parquet")), "a run has recorded something", command=command)
    command.kill()
    command.communicate()
    wait_until(lambda: not processes_naming(str(store)), "the processes of its runs have ended")

    resumed = splitbrain_here("nightly", plan, "--store", store, "--json")
    (night,) = nights(store)
    *results, summary = json_lines(resumed)
    assert resumed.code == EXIT_INVALID, resumed.messages
    assert {result["job"] for result in results} == JOBS
    assert {result["outcome"] for result in results if "mutant" in result["job"]} == {"failed"}
    assert any("interrupted" in line for line in resumed.messages), "what was left is healed first"

    rows = [row for row in index(store) if row.part_of is None]
    begun = [run for state in night.jobs().values() for run in state.runs]
    assert {row.run for row in rows} == set(begun), "every run is in the ledger"
    assert {row.night for row in rows} == {night.name}
    assert {row.status for row in rows} == {"judged", "interrupted"}
    assert summary["interrupted"] == sum(row.status == "interrupted" for row in rows) >= 1
    assert not processes_naming(str(store))

    assert night.is_finished
    assert json.loads((night.path / "summary.json").read_text()) == summary
    assert "## " in (night.path / "summary.md").read_text()
    assert ET.parse(night.path / "junit.xml").getroot().findall(".//failure")
    (listed,) = json_lines(splitbrain("nights", "--store", store, "--json"))
    assert (listed["night"], listed["verdict"], listed["counts"]) == (night.name, "invalid", summary["counts"])
    for job in summary["jobs"]:
        assert (night.path / job["report"]).is_file(), "a link of the summary leads to the report"


def test_plan_that_is_not_one_is_refused_before_a_night_begins(tmp_path: Path) -> None:
    (tmp_path / "night.toml").write_text("[[entries]]\nexplore = true\ntimes = 0\n")
    result = splitbrain("nightly", tmp_path / "night.toml", "--store", tmp_path / "runs")
    assert (result.code, len(result.messages)) == (EXIT_USAGE, 1)
    assert "night.toml: entries.0.times: expected 1 or more, found 0" in result.messages[0]
    assert not (tmp_path / "nights").exists()


def test_nothing_is_begun_where_only_an_interrupted_night_would_resume(tmp_path: Path) -> None:
    (tmp_path / "night.toml").write_text(PLAN)
    result = splitbrain("nightly", tmp_path / "night.toml", "--store", tmp_path / "runs", "--resume")
    assert (result.code, result.out) == (EXIT_VALID, "nothing to resume\n")
    assert not (tmp_path / "nights").exists()
    both = splitbrain("nightly", tmp_path / "night.toml", "--store", tmp_path / "runs", "--resume", "--new")
    assert (both.code, both.messages[-1]) == (EXIT_USAGE, "splitbrain: --new and --resume: expected one of both")


def test_scenario_that_the_system_does_not_have_ends_no_night_half_way(tmp_path: Path) -> None:
    (tmp_path / "night.toml").write_text('[[entries]]\nscenarios = ["PV-01", "KAFKA-20734"]\n')
    result = splitbrain("nightly", tmp_path / "night.toml", "--store", tmp_path / "runs")
    assert result.code == EXIT_USAGE
    assert "scenario KAFKA-20734: its bad side is not available on reference" in result.messages[-1]
    assert not (tmp_path / "runs").exists(), "nothing has run"
    assert nights(tmp_path / "runs") == []
