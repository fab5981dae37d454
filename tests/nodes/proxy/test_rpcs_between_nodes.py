"""The proxy between real processes: reference quorums in namespaces, with single RPCs held, lost and answered."""

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

SCENES = SUPPORT / "nodes" / "rpc_scenes.py"
SCENE_SECONDS = 120

pytestmark = [pytest.mark.netns]
Play = Callable[[str], Any]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Plays a scene in a sandbox of its own; what it saw."""

    def played(scene: str) -> Any:
        argv = enclose([sys.executable, str(SCENES), scene, str(tmp_path / "nodes")], Privilege.detect())
        result = subprocess.run(argv, capture_output=True, text=True, timeout=SCENE_SECONDS, check=False)
        assert result.returncode == 0, result.stderr[-3000:]
        return json.loads(result.stdout)

    return played


def test_follower_whose_fetch_responses_are_held_turns_prospective_and_back_and_burns_no_epoch(play: Play) -> None:
    """PV-03's good side: the others follow a leader, so that no pre-vote is granted."""
    seen = play("fetches_held_with_pre_vote")
    assert seen["states"][:2] == ["Prospective", "Follower"]
    assert (seen["burned"], seen["deposed"]) == (0, False)
    assert seen["acted"] >= 1
    assert seen["holding"] >= 1


def test_follower_whose_fetch_responses_are_held_burns_epochs_without_pre_vote(play: Play) -> None:
    """PV-03's bad side."""
    seen = play("fetches_held_without_pre_vote")
    assert seen["states"][0] == "Candidate"
    assert seen["burned"] >= 1
    assert seen["acted"] >= 1


@pytest.mark.parametrize("scene", ["pre_votes_dropped", "pre_votes_answered_with_an_error"])
def test_no_leader_is_elected_and_no_epoch_burned_while_no_pre_vote_passes(play: Play, scene: str) -> None:
    seen = play(scene)
    assert "Prospective" in seen["meanwhile"]
    assert {"Candidate", "Leader"}.isdisjoint(seen["meanwhile"])
    assert seen["burned"] == 0
    assert seen["acted"]


def test_rules_that_match_nothing_change_nothing_and_their_fault_is_no_test(play: Play) -> None:
    seen = play("nothing_matches")
    assert (seen["commits"], seen["unchanged"], seen["matched"]) == (True, True, 0)
    assert seen["verdict"] == "healing the RPC rules: end-txn never had a message to act on"


def test_connections_fail_when_the_proxy_is_killed_and_work_again_when_healed(play: Play) -> None:
    seen = play("proxy_killed")
    assert seen["ways"] == {
        "with a proxy": ["through"],
        "killed": ["nowhere"],
        "healed": ["around"],
        "with another": ["through"],
    }
    assert seen["commits"]


def test_every_rpc_is_recorded_with_the_epochs_and_votes_of_an_election(play: Play) -> None:
    assert play("everything_recorded") == {
        "responses answer requests": True,
        "times grow": True,
        "flags of votes": [False, True],
        "last vote granted": True,
        "fetches of the last epoch": True,
        "actions": ["pass"],
    }


def test_held_request_of_a_client_that_has_left_arrives_late(play: Play) -> None:
    """KAFKA-17754: an EndTxn that was under way when its producer gave the connection up."""
    assert play("client_leaves_while_held") == {"before": [True], "late": True, "source kept": True}


def test_connection_to_a_port_where_nobody_listens_is_reset(play: Play) -> None:
    assert play("nobody_listens") == {"ended": "reset", "node": "through", "client": "silent"}


def test_cut_link_carries_nothing_and_what_was_given_up_on_it_never_arrives(play: Play) -> None:
    assert play("cut_link") == {"answered": False, "way": "through", "arrived": ["versions"]}


def test_frames_of_many_megabytes_pass_whole_and_in_order(play: Play) -> None:
    assert play("large_frames") == {"whole": [True, True, True]}
