"""The scenarios themselves, by the product's own command: the anomaly shows on the bad side, and only there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from harness import plugins
from harness.judging.runs import wilson_interval

SOME = ["PV-01", "EX-01"]
ON_REFERENCE = sorted(each.id for each in plugins.scenarios().values() if "bad" in each.sides_on("reference"))
PLAYED = ON_REFERENCE if "SPLITBRAIN_ALL_SCENARIOS" in os.environ else SOME
"""All of them take a quarter of an hour."""

COMMAND = Path(sys.executable).with_name("splitbrain")


def reproduce(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "reproduce", *arguments, "--store", str(store), "--format", "json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(500)
@pytest.mark.parametrize("identifier", PLAYED)
def test_scenario_reproduces_on_the_reference_quorum(identifier: str, tmp_path: Path) -> None:
    played = reproduce(tmp_path, identifier)
    assert played.returncode == 0, played.stdout + played.stderr
    told = json.loads(played.stdout)
    assert told["verdict"] == "valid"
    assert [expectation["met"] for expectation in told["expectations"]] == [True] * len(told["expectations"])
    left = Path(told["run"])
    suites = ET.parse(left / "junit.xml").getroot()
    assert {suite.get("name") for suite in suites} >= {identifier}
    assert (left / "report.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(500)
def test_rejoining_follower_deposes_kafka_3_9s_leader_and_not_the_newest_4s(tmp_path: Path) -> None:
    played = reproduce(tmp_path, "PV-01", "--system", "kafka")
    assert played.returncode == 0, played.stdout + played.stderr
    versions = json.loads(played.stdout)["versions"]
    assert versions["bad-1 kafka"] == "3.9.1"
    assert versions["good-1 kafka"].startswith("4.")


@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(500)
def test_prospective_among_older_kafka_voters_falls_back_and_is_elected(tmp_path: Path) -> None:
    played = reproduce(tmp_path, "PV-25", "--side", "good", "--system", "kafka")
    assert played.returncode == 0, played.stdout + played.stderr
    (log,) = tmp_path.glob("*/good-1/nodes/n1/server.log")
    assert "Prospective received unsupported version error" in log.read_text()


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(500)
def test_side_that_does_not_go_as_documented_is_invalid(tmp_path: Path) -> None:
    """The canary: a bad side that has the fix cannot show the anomaly, and says so with exit 1."""
    played = reproduce(tmp_path, "PV-01", "--side", "bad", "--switch", "reference.pre_vote=true")
    assert played.returncode == 1, played.stdout + played.stderr
    assert json.loads(played.stdout)["summary"].startswith("Not as documented")


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(5, 5, 0.566, 1.0), (0, 5, 0.0, 0.434), (3, 5, 0.231, 0.882), (50, 100, 0.404, 0.596)],
)
def test_interval_is_wilsons(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=5e-4)
