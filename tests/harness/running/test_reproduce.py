"""Scenarios run by the real command: the anomaly appears on the bad side and only there."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from harness import plugins
from harness.model.errors import EXIT_INVALID, EXIT_VALID
from results.proportions import wilson_interval
from tests.support.command import CommandResult, json_lines, splitbrain

QUICK = ("PV-01",)
ON_REFERENCE = sorted(each.id for each in plugins.scenarios().values() if "bad" in each.sides_on("reference"))
SCENARIOS = [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in ON_REFERENCE]
"""All of them take a quarter of an hour."""


def reproduce(store: Path, *arguments: str) -> CommandResult:
    return splitbrain("reproduce", *arguments, "--store", store, "--format", "json", timeout_seconds=400)


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(500)
@pytest.mark.parametrize("identifier", SCENARIOS)
def test_scenario_reproduces_on_the_reference_quorum(identifier: str, tmp_path: Path) -> None:
    result = reproduce(tmp_path, identifier)
    assert result.code == EXIT_VALID, result
    (verdict,) = json_lines(result)
    assert verdict["verdict"] == "valid"
    assert [expectation["met"] for expectation in verdict["expectations"]] == [True] * len(verdict["expectations"])
    shown = {line.split()[2] for line in result.messages if line.split()[1:2] == ["s"]}
    assert shown >= {"run", "phase", "nemesis", "leader", "took"}, result.messages
    run = Path(verdict["run"])
    suites = ET.parse(run / "junit.xml").getroot()
    assert {suite.get("name") for suite in suites} >= {identifier}
    assert (run / "report.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(500)
def test_side_that_does_not_go_as_documented_is_invalid(tmp_path: Path) -> None:
    """The canary: a bad side with the fix does not show the anomaly, so the command exits 1."""
    result = reproduce(tmp_path, "PV-01", "--side", "bad", "--switch", "reference.pre_vote=true")
    assert result.code == EXIT_INVALID, result
    assert json_lines(result)[0]["summary"].startswith("Not as documented")


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(5, 5, 0.566, 1.0), (0, 5, 0.0, 0.434), (3, 5, 0.231, 0.882), (50, 100, 0.404, 0.596)],
)
def test_confidence_interval_is_the_wilson_interval(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=5e-4)
