"""The proxy between real processes: reference quorums in namespaces, with single RPCs held, dropped or answered."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodes.hosts.sandbox import Privilege, enclose
from tests.support import SUPPORT

CASES = SUPPORT / "nodes" / "rpc_cases.py"
CASE_SECONDS = 120

pytestmark = [pytest.mark.netns]
RunCase = Callable[[str], Any]


@pytest.fixture
def run_case(tmp_path: Path) -> RunCase:
    """Runs a case in a sandbox of its own; its result."""

    def run(case: str) -> Any:
        argv = enclose([sys.executable, str(CASES), case, str(tmp_path / "nodes")], Privilege.detect())
        result = subprocess.run(argv, capture_output=True, text=True, timeout=CASE_SECONDS, check=False)
        assert result.returncode == 0, result.stderr[-3000:]
        return json.loads(result.stdout)

    return run


def test_with_pre_vote_a_follower_without_fetch_responses_becomes_prospective_and_back_and_raises_no_epoch(
    run_case: RunCase,
) -> None:
    """PV-03's good side: the other voters follow a leader, so they grant no pre-vote."""
    result = run_case("fetches_held_with_pre_vote")
    assert result["states"][:2] == ["Prospective", "Follower"]
    assert (result["epochs_raised"], result["deposed"]) == (0, False)
    assert result["acted"] >= 1
    assert result["holding"] >= 1


def test_without_pre_vote_a_follower_without_fetch_responses_raises_the_epoch(run_case: RunCase) -> None:
    """PV-03's bad side."""
    result = run_case("fetches_held_without_pre_vote")
    assert result["states"][0] == "Candidate"
    assert result["epochs_raised"] >= 1
    assert result["acted"] >= 1


@pytest.mark.parametrize("case", ["pre_votes_dropped", "pre_votes_answered_with_an_error"])
def test_no_leader_is_elected_and_no_epoch_is_raised_while_no_pre_vote_passes(run_case: RunCase, case: str) -> None:
    result = run_case(case)
    assert "Prospective" in result["states"]
    assert {"Candidate", "Leader"}.isdisjoint(result["states"])
    assert result["epochs_raised"] == 0
    assert result["acted"]


def test_rules_without_a_match_change_nothing_and_their_heal_reports_it(run_case: RunCase) -> None:
    result = run_case("nothing_matches")
    assert (result["commits"], result["unchanged"], result["matched"]) == (True, True, 0)
    assert result["outcome"] == "healing the RPC rules: end-txn never had a message to act on"


def test_connections_fail_when_the_proxy_is_killed_and_work_again_when_healed(run_case: RunCase) -> None:
    result = run_case("proxy_killed")
    assert result["routes"] == {
        "with a proxy": ["proxied"],
        "killed": ["no proxy"],
        "healed": ["direct"],
        "with a new proxy": ["proxied"],
    }
    assert result["commits"]


def test_every_rpc_is_recorded_with_the_epochs_and_votes_of_an_election(run_case: RunCase) -> None:
    assert run_case("everything_recorded") == {
        "responses match requests": True,
        "times grow": True,
        "pre-vote flags": [False, True],
        "last vote granted": True,
        "fetches of the last epoch": True,
        "actions": ["pass"],
    }


def test_a_held_request_of_a_closed_client_arrives_late(run_case: RunCase) -> None:
    """KAFKA-17754: an EndTxn request that was in flight when its producer closed the connection."""
    assert run_case("client_leaves_while_held") == {"before": [True], "late": True, "source address kept": True}


def test_a_connection_to_a_closed_port_is_reset(run_case: RunCase) -> None:
    assert run_case("closed_port") == {"ended": "reset", "node": "proxied", "client": "no answer"}


def test_a_cut_link_carries_nothing_and_an_abandoned_request_never_arrives(run_case: RunCase) -> None:
    assert run_case("cut_link") == {"answered": False, "route": "proxied", "arrived": ["versions"]}


def test_frames_of_many_megabytes_arrive_complete_and_in_order(run_case: RunCase) -> None:
    assert run_case("large_frames") == {"complete": [True, True, True]}
