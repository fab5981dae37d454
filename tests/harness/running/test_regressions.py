"""Bugs of Kafka by issue number: reproduced on real brokers, found by the checks, refused where impossible."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.model.errors import EXIT_USAGE, EXIT_VALID
from tests.support.command import CommandResult, splitbrain


def reproduce(store: Path, *arguments: str, scenario: str = "KAFKA-17754") -> CommandResult:
    return splitbrain("reproduce", scenario, *arguments, "--store", store, "--format", "json", timeout_seconds=250)


@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(500)
@pytest.mark.slow
def test_transaction_hangs_if_a_partition_had_no_leader_when_it_committed(tmp_path: Path) -> None:
    result = reproduce(tmp_path, "--system", "kafka", scenario="KAFKA-20734")
    assert result.code == EXIT_VALID, result
    findings = json.loads(result.out)["findings"]
    assert {found["name"] for found in findings if found["severity"] == "invalid"} == {"hanging-transaction"}


@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.spark
def test_delayed_end_txn_commits_a_transaction_that_aborts(tmp_path: Path) -> None:
    result = reproduce(tmp_path, "--system", "kafka", "--side", "bad")
    assert result.code == EXIT_VALID, result
    findings = json.loads(result.out)["findings"]
    named = {found["name"]: found for found in findings if found["severity"] == "invalid"}
    assert set(named) == {"aborted-read", "precommitted-read", "torn-transaction"}
    assert "wrote log-0=2 and failed, and it was read" in named["aborted-read"]["message"]
    assert "log-0=2 was read, and log-1=3 is missing" in named["torn-transaction"]["message"]


def test_reference_system_has_no_transactions_and_is_refused_in_one_line(tmp_path: Path) -> None:
    result = reproduce(tmp_path, "--system", "reference")
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
    result = reproduce(tmp_path, "--system", *arguments)
    assert result.code == EXIT_USAGE
    message = f"splitbrain: {problem}, which the good side of KAFKA-17754 needs; --side bad does not"
    assert result.messages[-1:] == [message]
    assert list(tmp_path.iterdir()) == []
