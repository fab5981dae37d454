"""Scenarios and plans on real Kafka, by the real command.

They are in one file because the tests of a file run one after another: two clusters at a time would compete for cores.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from harness.model.errors import EXIT_INVALID, EXIT_USAGE, EXIT_VALID
from tests.support.command import CommandResult, json_lines, splitbrain_here

PLANS = Path(__file__).with_name("plans")
ON_A_CLUSTER = (
    *(pytest.mark.kafka, pytest.mark.netns, pytest.mark.spark),
    *(pytest.mark.usefixtures("spark"), pytest.mark.timeout(500)),
)


def on_a_cluster(test: Any) -> Any:
    """Mark a test that starts brokers."""
    for mark in ON_A_CLUSTER:
        test = mark(test)
    return test


def reproduce(store: Path, scenario: str, *arguments: str, system: str = "kafka") -> CommandResult:
    flags = ["--system", system, *arguments, "--store", store, "--format", "json"]
    return splitbrain_here("reproduce", scenario, *flags)


def reproduced(store: Path, scenario: str, *arguments: str) -> dict[str, Any]:
    """The verdict on a scenario that must reproduce."""
    result = reproduce(store, scenario, *arguments)
    assert result.code == EXIT_VALID, result
    (verdict,) = json_lines(result)
    return verdict


def run_plan(plan: str, store: Path, code: int, *arguments: str) -> dict[str, Any]:
    """The verdict on a plan of this folder, whose command must exit with the code."""
    flags = ["--plan", PLANS / f"{plan}.toml", *arguments, "--store", store, "--format", "json"]
    result = splitbrain_here("run", *flags)
    assert result.code == code, result
    (verdict,) = json_lines(result)
    return verdict


def names(verdict: dict[str, Any], severity: str) -> set[str]:
    return {finding["name"] for finding in verdict["findings"] if finding["severity"] == severity}


def severities(verdict: dict[str, Any]) -> set[str]:
    return {finding["severity"] for finding in verdict["findings"]}


@pytest.mark.slow
@on_a_cluster
def test_rejoining_follower_deposes_the_leader_of_kafka_3_9_and_not_of_the_newest_4(tmp_path: Path) -> None:
    versions = reproduced(tmp_path, "PV-01")["versions"]
    assert versions["bad-1 kafka"] == "3.9.1"
    assert versions["good-1 kafka"].startswith("4.")


@on_a_cluster
@pytest.mark.slow
def test_prospective_among_older_kafka_voters_falls_back_and_is_elected(tmp_path: Path) -> None:
    reproduced(tmp_path, "PV-25", "--side", "good")
    (log,) = tmp_path.glob("2*/good-1/nodes/n1/server.log")
    assert "Prospective received unsupported version error" in log.read_text()


@on_a_cluster
def test_delayed_end_txn_commits_a_transaction_that_aborts(tmp_path: Path) -> None:
    findings = reproduced(tmp_path, "KAFKA-17754", "--side", "bad")["findings"]
    named = {found["name"]: found for found in findings if found["severity"] == "invalid"}
    assert set(named) == {"aborted-read", "precommitted-read", "torn-transaction"}
    assert "wrote log-0=2 and failed, and it was read" in named["aborted-read"]["message"]
    assert "log-0=2 was read, and log-1=3 is missing" in named["torn-transaction"]["message"]


@on_a_cluster
@pytest.mark.slow
def test_transaction_hangs_if_a_partition_had_no_leader_when_it_committed(tmp_path: Path) -> None:
    assert names(reproduced(tmp_path, "KAFKA-20734"), "invalid") == {"hanging-transaction"}


@on_a_cluster
@pytest.mark.slow
def test_controller_that_truncated_its_log_keeps_removed_voters_and_two_leaders_commit(tmp_path: Path) -> None:
    verdict = reproduced(tmp_path, "EX-02", "--side", "bad")
    assert names(verdict, "invalid") == {
        "stale-voters",
        "elected-without-majority",
        "high-watermark-went-back",
        "lost-write",
        "committed-record-not-on-leader",
        "server-exited",
    }
    (stale,) = [found for found in verdict["findings"] if found["name"] == "stale-voters"]
    assert "node 1 counted voters 1, 2, 3, after a KRaftVoters record of 1, 3, 4" in stale["message"]


@on_a_cluster
@pytest.mark.slow
def test_leader_exits_when_a_voter_that_it_removed_answers(tmp_path: Path) -> None:
    verdict = reproduced(tmp_path, "EX-03")
    assert names(verdict, "invalid") == {"server-exited"}
    (exited,) = [found for found in verdict["findings"] if found["name"] == "server-exited"]
    assert "java.lang.IllegalArgumentException: Unexpected acknowledgement from non-voter 3" in exited["message"]


@on_a_cluster
@pytest.mark.slow
def test_removed_voter_that_lost_an_election_never_starts_again(tmp_path: Path) -> None:
    verdict = reproduced(tmp_path, "EX-04")
    failed = [found for found in verdict["findings"] if found["name"] == "server-cannot-start"]
    assert len(failed) == 2
    assert all("must be in the set of voters" in found["message"] for found in failed)


def test_reference_system_has_no_transactions_and_is_refused_in_one_line(tmp_path: Path) -> None:
    result = reproduce(tmp_path, "KAFKA-17754", system="reference")
    assert result.code == EXIT_USAGE
    assert result.messages == [
        "splitbrain: scenario KAFKA-17754: its bad side is not available on reference; it needs --system kafka"
    ]


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("kafka:3.9.1",), "--system kafka:3.9.1: expected a release that has transaction.version"),
        (
            ("kafka:4.3.1", "--feature", "transaction.version=0"),
            "--feature transaction.version=0: expected 1 or higher",
        ),
    ],
)
def test_cluster_without_transaction_epochs_is_refused_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    system, *flags = arguments
    result = reproduce(tmp_path, "KAFKA-17754", *flags, system=system)
    assert result.code == EXIT_USAGE
    message = f"splitbrain: {problem}, which the good side of KAFKA-17754 needs; --side bad does not"
    assert result.messages[-1:] == [message]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@on_a_cluster
def test_records_lost_by_an_unclean_election_are_found(tmp_path: Path) -> None:
    verdict = run_plan("unclean", tmp_path, EXIT_INVALID)
    invalid = [finding for finding in verdict["findings"] if finding["severity"] == "invalid"]
    assert {finding["check"] for finding in invalid} - {"divergence"} == {"log"}
    lost = [finding for finding in verdict["findings"] if finding["name"] == "lost-write"]
    # Only one partition has no replica on a broker that stays up.
    assert len({finding["key"] for finding in lost} - {None}) == 1
    assert "was acknowledged at offset" in lost[0]["message"]
    # The divergence check may find the same loss by the high watermark on a leader's disk, in that partition only.
    truncated = {(finding["name"], finding["key"]) for finding in invalid if finding["check"] == "divergence"}
    assert truncated <= {("truncated-below-high-watermark", lost[0]["key"])}
    assert names(verdict, "unknown") == set()


@on_a_cluster
@pytest.mark.slow
def test_voter_with_a_replaced_disk_is_removed_and_added_again_without_loss(tmp_path: Path) -> None:
    assert severities(run_plan("replaced-disk", tmp_path, EXIT_VALID)) <= {"tolerated"}


@on_a_cluster
@pytest.mark.slow
def test_committed_offsets_never_decrease_when_the_coordinator_is_killed(tmp_path: Path) -> None:
    verdict = run_plan("group", tmp_path, EXIT_VALID)
    assert severities(verdict) <= {"tolerated"}
    quantities = {each["name"] for each in verdict["quantities"]}
    assert {"latency_commit_ms_max", "latency_committed_ms_max"} <= quantities, "no commit or committed was ok"


@on_a_cluster
@pytest.mark.slow
def test_transactions_of_fenced_producers_have_no_effect(tmp_path: Path) -> None:
    verdict = run_plan("zombies", tmp_path, EXIT_VALID)
    assert severities(verdict) <= {"tolerated"}
    rows = parquet.read_table(Path(verdict["run"]) / "history").to_pylist()
    ends = [row for row in rows if row["type"] != "invoke" and '"fence"' in (row["value"] or "")]
    fenced = [row for row in ends if row["type"] == "fail" and "_FENCED" in row["error"]]
    assert len(fenced) >= 3, "no producer was fenced"
    assert [row for row in ends if row["type"] == "ok"] == []


@pytest.mark.slow
@on_a_cluster
def test_unclean_elections_under_kip_101_leave_different_records_at_an_offset(tmp_path: Path) -> None:
    verdict = run_plan("zookeeper", tmp_path, EXIT_INVALID)
    (found,) = verdict["findings"]
    assert (found["name"], found["key"]) == ("diverged-logs", "t-0")
    assert re.search(r"at offset 0 node 1 has epoch [0-9] .*, node 2 epoch [1-9]", found["message"])
    measured = {each["name"]: each["value"] for each in verdict["quantities"]}
    assert (measured["partitions_compared"], measured["partitions_with_equal_logs"]) == (1, 0)
    (log,) = tmp_path.glob("2*/nodes/n1/server.log")
    assert "protocol version where leader epoch is not considered" in log.read_text()


@on_a_cluster
@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "broken"),
    [
        ("LD-01", {"replication-stuck"}),
        ("LD-02", {"diverged-logs"}),
        ("LD-03", {"diverged-logs", "log-hole"}),
        ("LD-05", {"diverged-logs"}),
    ],
)
def test_kip_279_keeps_logs_equal_that_kip_101_does_not(tmp_path: Path, scenario: str, broken: set[str]) -> None:
    assert names(reproduced(tmp_path, scenario), "invalid") == broken


@on_a_cluster
@pytest.mark.parametrize("system", ["reference", "kafka:4.3.1"])
def test_probes_are_recorded_and_what_differs_is_found(tmp_path: Path, system: str) -> None:
    verdict = run_plan("probe", tmp_path, EXIT_INVALID, "--system", system)
    found = {finding["message"] for finding in verdict["findings"] if finding["severity"] == "invalid"}
    assert len(found) == 2, verdict["findings"]
    assert all(": wrong: " in message for message in found), found
    assert names(verdict, "invalid") == {"unexpected-response", "unexpected-output"}
    rows = parquet.read_table(Path(verdict["run"]) / "history").to_pylist()
    values = [json.loads(row["value"]) for row in rows if row["f"] in ("ask", "run_tool")]
    probes = [value for value in values if "compared" in value]
    assert (len(values), len(probes)) == (16, 8), [row["error"] for row in rows if row["error"]]
    vote, timed_out = probes[0], probes[6]
    (partition,) = vote["response"]["topics"][0]["partitions"]
    assert partition["leader_epoch"] == vote["request"]["topics"][0]["partitions"][0]["replica_epoch"] > 0
    assert (timed_out["exit_code"], timed_out["timed_out"]) == (None, True)


@on_a_cluster
@pytest.mark.slow
def test_brokers_answer_probes_at_their_listener_for_clients(tmp_path: Path) -> None:
    assert run_plan("probe-brokers", tmp_path, EXIT_VALID)["findings"] == []
