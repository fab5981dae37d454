"""Plans on real Kafka: each is run by the command, and its history is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from harness.model.errors import EXIT_INVALID, EXIT_VALID
from tests.support.command import json_lines, splitbrain

pytestmark = [pytest.mark.kafka, pytest.mark.netns, pytest.mark.spark, pytest.mark.timeout(400)]


def run_plan(plan: str, store: Path, code: int) -> dict[str, Any]:
    """Run a plan in this directory, expect the exit code, and return the command's JSON."""
    toml = Path(__file__).with_name(f"{plan}.toml")
    result = splitbrain("run", "--plan", toml, "--store", store, "--format", "json", timeout_seconds=300)
    assert result.code == code, result
    (verdict,) = json_lines(result)
    return verdict


def severities(result: dict[str, Any]) -> set[str]:
    return {finding["severity"] for finding in result["findings"]}


def test_records_lost_by_an_unclean_election_are_found(tmp_path: Path) -> None:
    findings = run_plan("unclean", tmp_path, EXIT_INVALID)["findings"]
    invalid = [finding for finding in findings if finding["severity"] == "invalid"]
    assert {finding["check"] for finding in invalid} - {"divergence"} == {"log"}
    lost = [finding for finding in findings if finding["name"] == "lost-write"]
    # Only one partition has no replica on a broker that stays up.
    assert len({finding["key"] for finding in lost} - {None}) == 1
    assert "was acknowledged at offset" in lost[0]["message"]
    # The divergence check may find the same loss by the high watermark on a leader's disk, in that partition only.
    truncated = {(finding["name"], finding["key"]) for finding in invalid if finding["check"] == "divergence"}
    assert truncated <= {("truncated-below-high-watermark", lost[0]["key"])}
    assert [finding["name"] for finding in findings if finding["severity"] == "unknown"] == []


@pytest.mark.slow
def test_voter_with_a_replaced_disk_is_removed_and_added_again_without_loss(tmp_path: Path) -> None:
    assert severities(run_plan("replaced-disk", tmp_path, EXIT_VALID)) <= {"tolerated"}


@pytest.mark.slow
def test_committed_offsets_never_decrease_when_the_coordinator_is_killed(tmp_path: Path) -> None:
    result = run_plan("group", tmp_path, EXIT_VALID)
    assert severities(result) <= {"tolerated"}
    quantities = {each["name"] for each in result["quantities"]}
    assert {"latency_commit_ms_max", "latency_committed_ms_max"} <= quantities, "no commit or committed was ok"


@pytest.mark.slow
def test_transactions_of_fenced_producers_have_no_effect(tmp_path: Path) -> None:
    result = run_plan("zombies", tmp_path, EXIT_VALID)
    assert severities(result) <= {"tolerated"}
    rows = parquet.read_table(Path(result["run"]) / "history").to_pylist()
    ends = [row for row in rows if row["type"] != "invoke" and '"fence"' in (row["value"] or "")]
    fenced = [row for row in ends if row["type"] == "fail" and "_FENCED" in row["error"]]
    assert len(fenced) >= 3, "no producer was fenced"
    assert [row for row in ends if row["type"] == "ok"] == []
