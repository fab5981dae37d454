"""What plans on a real Kafka end in: each is run by the command, and its history judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from harness.model.errors import EXIT_INVALID, EXIT_VALID

COMMAND = Path(sys.executable).with_name("splitbrain")
pytestmark = [pytest.mark.kafka, pytest.mark.netns, pytest.mark.spark, pytest.mark.timeout(400)]

ASKED_FOR = pytest.mark.skipif(
    "SPLITBRAIN_ALL_SCENARIOS" not in os.environ, reason="SPLITBRAIN_ALL_SCENARIOS plays all"
)


def played(plan: str, store: Path, code: int) -> dict[str, Any]:
    """What the command says of a plan beside this file, which it must end with this code."""
    toml = Path(__file__).with_name(f"{plan}.toml")
    command = [str(COMMAND), "run", "--plan", str(toml), "--store", str(store), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def severities(judged: dict[str, Any]) -> set[str]:
    return {found["severity"] for found in judged["findings"]}


def test_acknowledged_records_that_an_unclean_election_loses_are_named(tmp_path: Path) -> None:
    findings = played("unclean", tmp_path, EXIT_INVALID)["findings"]
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


@ASKED_FOR
def test_a_voter_with_a_new_disk_leaves_and_is_added_again_and_nothing_is_lost(tmp_path: Path) -> None:
    assert severities(played("replaced-disk", tmp_path, EXIT_VALID)) <= {"tolerated"}


@ASKED_FOR
def test_what_a_group_commits_never_goes_back_though_its_coordinator_dies(tmp_path: Path) -> None:
    judged = played("group", tmp_path, EXIT_VALID)
    assert severities(judged) <= {"tolerated"}
    measured = {each["name"] for each in judged["quantities"]}
    assert {"latency_commit_ms_max", "latency_committed_ms_max"} <= measured, "nobody committed, or asked for it"


def test_fenced_producers_that_go_on_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    judged = played("zombies", tmp_path, EXIT_VALID)
    assert severities(judged) <= {"tolerated"}
    rows = parquet.read_table(Path(judged["run"]) / "history").to_pylist()
    ends = [row for row in rows if row["type"] != "invoke" and '"fence"' in (row["value"] or "")]
    refused = [row for row in ends if row["type"] == "fail" and "_FENCED" in row["error"]]
    assert len(refused) >= 3, "nobody was fenced"
    assert [row for row in ends if row["type"] == "ok"] == []
