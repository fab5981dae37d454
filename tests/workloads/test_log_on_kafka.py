"""A real Kafka, set up to lose acknowledged records, loses some, and the check names them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("splitbrain")
UNCLEAN, REPLACED_DISK, GROUP = (
    Path(__file__).with_name(f"{name}.toml") for name in ("unclean", "replaced-disk", "group")
)

ASKED_FOR = pytest.mark.skipif(
    "SPLITBRAIN_ALL_SCENARIOS" not in os.environ, reason="SPLITBRAIN_ALL_SCENARIOS plays all"
)


def play(plan: Path, store: Path) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "run", "--plan", str(plan), "--store", str(store), "--format", "json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_acknowledged_records_that_an_unclean_election_loses_are_named(tmp_path: Path) -> None:
    played = play(UNCLEAN, tmp_path)
    assert played.returncode == 1, played.stdout + played.stderr
    findings = json.loads(played.stdout)["findings"]
    broken = [found for found in findings if found["severity"] == "invalid"]
    assert {found["check"] for found in broken} - {"divergence"} == {"log"}
    lost = [found for found in findings if found["name"] == "lost-write"]
    # One partition alone was left without a copy on a broker that stayed.
    assert len({found["key"] for found in lost} - {None}) == 1
    assert "was acknowledged at offset" in lost[0]["message"]
    # A leader that had it on file before it died says the same of that partition, and nothing is said of others.
    cut = {(found["name"], found["key"]) for found in broken if found["check"] == "divergence"}
    assert cut <= {("truncated-below-high-watermark", lost[0]["key"])}
    assert [found["name"] for found in findings if found["severity"] == "unknown"] == []


@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(400)
@ASKED_FOR
def test_a_voter_with_a_new_disk_leaves_and_is_added_again_and_nothing_is_lost(tmp_path: Path) -> None:
    played = play(REPLACED_DISK, tmp_path)
    assert played.returncode == 0, played.stdout + played.stderr
    findings = json.loads(played.stdout)["findings"]
    assert {found["severity"] for found in findings} <= {"tolerated"}


@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(400)
@ASKED_FOR
def test_what_a_group_commits_never_goes_back_though_its_coordinator_dies(tmp_path: Path) -> None:
    played = play(GROUP, tmp_path)
    assert played.returncode == 0, played.stdout + played.stderr
    judged = json.loads(played.stdout)
    assert {found["severity"] for found in judged["findings"]} <= {"tolerated"}
    measured = {each["name"] for each in judged["quantities"]}
    assert {"latency_commit_ms_max", "latency_committed_ms_max"} <= measured, "nobody committed, or asked for it"
