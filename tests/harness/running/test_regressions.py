"""Bugs of Kafka, by name: brought about on real brokers, found by the checks, and refused where they cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = str(Path(sys.executable).with_name("splitbrain"))


def play(store: Path, *arguments: str, scenario: str = "KAFKA-17754") -> subprocess.CompletedProcess[str]:
    command = [COMMAND, "reproduce", scenario, *arguments, "--store", str(store), "--format", "json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)


@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(500)
@pytest.mark.skipif("SPLITBRAIN_ALL_SCENARIOS" not in os.environ, reason="SPLITBRAIN_ALL_SCENARIOS plays all")
def test_a_transaction_hangs_where_its_partition_had_no_leader_when_it_was_committed(tmp_path: Path) -> None:
    played = play(tmp_path, "--system", "kafka", scenario="KAFKA-20734")
    assert played.returncode == 0, played.stdout + played.stderr
    findings = json.loads(played.stdout)["findings"]
    assert {found["name"] for found in findings if found["severity"] == "invalid"} == {"hanging-transaction"}


@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.spark
def test_an_end_that_comes_late_commits_what_is_aborted_later(tmp_path: Path) -> None:
    played = play(tmp_path, "--system", "kafka", "--side", "bad")
    assert played.returncode == 0, played.stdout + played.stderr
    findings = json.loads(played.stdout)["findings"]
    named = {found["name"]: found for found in findings if found["severity"] == "invalid"}
    assert set(named) == {"aborted-read", "precommitted-read", "torn-transaction"}
    assert "wrote log-0=2 and failed, and it was read" in named["aborted-read"]["message"]
    assert "log-0=2 was read, and log-1=3 is missing" in named["torn-transaction"]["message"]


def test_the_reference_which_has_no_transactions_is_refused_in_one_line(tmp_path: Path) -> None:
    played = play(tmp_path, "--system", "reference")
    assert played.returncode == 254
    told = played.stderr.strip()
    assert told == (
        "splitbrain: scenario KAFKA-17754: its bad side is not available on reference; it needs --system kafka"
    )


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("kafka:3.9.1",), "--system kafka:3.9.1: expected 4.0 or later, which has transaction.version"),
        (
            ("kafka:4.3.1", "--feature", "transaction.version=0"),
            "--feature transaction.version=0: expected 1 or higher",
        ),
    ],
)
def test_a_cluster_that_knows_no_epoch_for_each_transaction_is_refused_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    played = play(tmp_path, "--system", *arguments)
    assert played.returncode == 254
    told = f"splitbrain: {says}, as the good side of KAFKA-17754 needs it; --side bad can be had"
    assert played.stderr.strip() == told
    assert list(tmp_path.iterdir()) == []
