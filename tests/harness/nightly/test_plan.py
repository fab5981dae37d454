"""A night's plan: its keys, the matrix that they mean, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from harness.model import BadInput
from harness.nightly.plan import Cell, Entry, NightPlan, cells_of, jobs_of, read_night_plan
from harness.nightly.work import scenario_request

MATRIX = """
name = "chaos"
hours = 1.5
seed = 5

[[entries]]
scenarios = ["PV-01", "lp-0*"]
systems = ["reference", "kafka:4.3.1"]

[[entries]]
explore = true
switches = [{}, { "reference.read_mode" = "lease" }]
times = 3
"""


def plan_of(tmp_path: Path, text: str) -> NightPlan:
    file = tmp_path / "night.toml"
    file.write_text(text)
    return read_night_plan(file)


def test_matrix_has_each_scenario_on_each_system_with_each_switches(tmp_path: Path) -> None:
    cells = cells_of(plan_of(tmp_path, MATRIX))
    titles = [cell.title for cell in cells]
    assert titles[:2] == ["PV-01 on reference", "PV-01 on kafka:4.3.1"]
    assert "LP-09 on kafka:4.3.1" in titles
    assert titles[-2:] == ["explore on reference", "explore on reference with reference.read_mode=lease"]
    assert [cell.is_required for cell in cells if cell.what in ("PV-01", "LP-09")] == [True, True, False, False]


def test_cell_of_two_entries_is_played_once(tmp_path: Path) -> None:
    text = '[[entries]]\nscenarios = ["PV-01"]\n[[entries]]\nscenarios = ["PV-01", "PV-0[12]"]\n'
    assert [cell.what for cell in cells_of(plan_of(tmp_path, text))] == ["PV-01", "PV-02"]


def test_every_cell_has_a_run_before_any_has_a_second() -> None:
    often, once = Entry(explore=True, times=3), Entry(scenarios=["PV-01"])
    cells = [Cell("explore", "reference", {}, often), Cell("PV-01", "reference", {}, once)]
    jobs = [(job.cell.what, job.seed) for job in jobs_of(cells, 5)]
    assert jobs == [("explore", 5), ("PV-01", 5), ("explore", 6), ("explore", 7)]
    assert len({job.id for job in jobs_of(cells, 5)}) == 4


@pytest.mark.parametrize(
    ("scenario", "system", "side"),
    [
        ("PV-01", "kafka:3.9.1", "good"),
        ("PV-01", "kafka:4.3.1", "good"),
        ("PV-01", "kafka", "both"),
        ("PV-01", "reference", "both"),
        ("LD-03", "kafka:3.9.1", "both"),
    ],
    ids=["an earlier release", "a later release", "each side's own release", "no releases", "sides of one release"],
)
def test_named_release_plays_the_good_side_of_what_differs_between_releases(
    scenario: str, system: str, side: str
) -> None:
    cell = Cell(scenario, system, {}, Entry(scenarios=[scenario], systems=[system]))
    assert scenario_request(cell, 1).side == side


@pytest.mark.parametrize("side", ["bad", "good"])
def test_side_that_the_plan_names_is_played_alone(side: Literal["bad", "good"]) -> None:
    cell = Cell("PV-01", "kafka:4.3.1", {}, Entry(scenarios=["PV-01"], systems=["kafka:4.3.1"], side=side))
    assert scenario_request(cell, 1).side == side


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "night.toml: entries: expected a value"),
        ("entries = []", "night.toml: entries: expected at least 1 of them"),
        ("[[entries]]", "expected either scenarios or explore = true"),
        ('[[entries]]\nexplore = true\nscenarios = ["PV-01"]', "expected either scenarios or explore = true"),
        ('[[entries]]\nscenarios = ["PV01"]', "entries, number 1: scenarios: expected a scenario's id, or a pattern"),
        ('[[entries]]\nexplore = true\n[[entries]]\nscenarios = ["XX-*"]', "entries, number 2: scenarios: expected"),
        ('[[entries]]\nexplore = true\nsystems = ["kafkaa"]', "found 'kafkaa'; did you mean kafka?"),
        ("hours = 0\n[[entries]]\nexplore = true", "night.toml: hours: expected more than 0, found 0"),
        ("hors = 2\n[[entries]]\nexplore = true", "did you mean hours?"),
        ("[[entries]]\nexplore = true\n[keep]\ndays = -1", "keep.days: expected 0 or more, found -1"),
        ('name = "../x"\n[[entries]]\nexplore = true', "night.toml: name: expected a name of up to 61 letters"),
    ],
)
def test_bad_plan_is_refused_with_the_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadInput) as refusal:
        plan_of(tmp_path, text)
    assert problem in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_inventory_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    entry = Entry.model_validate({"explore": True, "hosts": "ssh", "inventory": "machines.toml"})
    assert entry.inventory == str(tmp_path / "machines.toml")
