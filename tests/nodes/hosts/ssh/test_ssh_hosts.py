"""Hosts over SSH: a real sshd in each namespace of a sandbox; trust, files, cuts, servers, leases and healing."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from nodes.hosts.sandbox import Privilege, enclose
from tests.support import SUPPORT

pytestmark = pytest.mark.netns

ROOT = SUPPORT.parents[1]
SCENES = SUPPORT / "nodes" / "ssh_scenes.py"
SCENE_SECONDS = 90


@pytest.fixture(scope="module")
def play(sshd, tmp_path_factory):
    """Plays a scene of ssh_scenes.py in a sandbox; what it told, line by line."""

    def play_scene(scene):
        tmp_path = tmp_path_factory.mktemp(scene)
        argv = enclose([sys.executable, str(SCENES), scene, str(tmp_path)], Privilege.detect())
        settings = {**os.environ, **sshd, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        result = subprocess.run(argv, capture_output=True, text=True, timeout=SCENE_SECONDS, env=settings, cwd=tmp_path)
        logs = "".join(log.read_text() for log in tmp_path.glob("n*/sshd.log"))
        assert result.returncode == 0, result.stderr + logs
        assert result.stderr == ""
        return [json.loads(line) for line in result.stdout.splitlines()]

    return play_scene


@pytest.fixture(scope="module")
def files(play):
    """What the scene of files told, which several tests look at."""
    return play("files")


def test_files_folders_and_commands_reach_a_machine_and_nothing_in_them_means_anything_to_a_shell(files):
    told, after = files
    assert told["said"] == "written here\n"
    assert told["odd"] == "a b|$(touch x)|; touch y|`touch z`|it's|new\nline|*|"
    assert told["touched"] == []
    assert told["same"] == [True, True]
    assert told["view"] == ["10.77.0.1", "n1"]
    assert after == {"left": [], "mirrored": ["deep", "folder", "one"]}


def test_what_fails_on_a_machine_is_one_line_that_names_it_and_what_is_not_done_in_time_is_ended(files):
    told, _ = files
    assert "ended" in told
    where = "on n1 (root@10.77.0.1:22): "
    assert told["failing"] == (
        f"running ls /nowhere {where}exit 2: ls: cannot access '/nowhere': No such file or directory"
    )
    assert told["endless"] == f"running sleep 987654 {where}not done after 0.3 s"
    assert told["missing"].endswith(f"{where}[Errno 2] No such file")


def test_a_command_waits_for_no_delayed_acknowledgement(files):
    told, _ = files
    assert told["command_ms"] < 40


def test_cuts_are_one_way_mend_one_by_one_and_leave_the_controller_its_way(play):
    (told,) = play("cuts")
    assert told["failing"] == {
        "at first": [],
        "one way": [[1, 2]],
        "two cuts": [[1, 2], [3, 1], [3, 2]],
        "one mended": [[1, 2], [3, 2]],
        "mended": [],
    }
    assert told["reached"] == ["n1", "n2", "n3"]
    assert told["refused"]


def test_the_state_of_a_server_is_what_the_kernel_there_says_and_each_end_is_told(play):
    (told,) = play("processes")
    assert told["states"] == ["gone", "running", "paused", "running", "gone", "running", "gone"]
    assert told["events"] == [
        [1, "started", ""],
        [1, "stopped", "SIGTERM"],
        [1, "started", ""],
        [1, "stopped", "SIGKILL"],
        [2, "started", ""],
        [2, "stopped", "SIGKILL"],
        [3, "started", ""],
        [3, "stopped", "exit 3"],
    ]
    assert told["stubborn"] == "ending n2 by SIGTERM: still there after 0.3 s"
    assert told["last"] == "gone"
    assert told["log"].startswith("ready\n")


def test_a_reference_quorum_elects_again_without_its_leader_and_its_files_come_here_meanwhile(play):
    led, after = play("quorum")
    assert led["first"] != led["second"]
    assert after == {"left": [], "fetched": True}


def test_leases_undo_everything_when_the_controller_is_killed(play):
    (told,) = play("killed")
    assert told["passing"] == [[2, 1]]
    assert told["held"] > 0
    assert (told["left"], told["healed"]) == ([], [])


def test_healing_undoes_what_leases_did_not_and_is_harmless_twice(play):
    assert play("healed") == [{"before": 2, "after": [[], []]}]


def test_a_server_whose_machine_is_lost_is_told_and_ended_over_there(play):
    (told,) = play("dropped")
    assert told["states"] == ["gone", "running"]
    assert [1, "stopped", "connection lost"] in told["events"]
    assert told["leaving"].startswith("leaving n1 (root@10.77.0.1:22): ")
    assert told["left"] == []


def test_only_machines_that_are_known_are_believed(play):
    said = play("trust")[0]["said"]
    assert (said["known"], said["accepted"]) == ("welcome\n", "welcome\n")
    assert "its host key ssh-ed25519 AAAA" in said["unknown"]
    assert "is not known; add it to known_hosts" in said["unknown"]
    assert "does not match" in said["another's key"]
    for name in ("refused", "no such user"):
        assert said[name].endswith("Authentication failed.")
    assert said["no key"].endswith("No such file or directory: '/nowhere/key'")


def test_a_machine_that_does_not_answer_yet_is_dialled_again_and_one_that_never_does_is_given_up(play):
    (told,) = play("late")
    assert told["late"] == "welcome\n"
    assert told["never"].startswith("connecting to n1 (root@10.77.0.1:22): ")
    assert told["attempts"] == 6


def test_root_s_deeds_go_through_sudo_where_the_inventory_says_so(play):
    (told,) = play("sudo")
    assert told["passing"] == [[2, 1]]
    undone = ["-n nft list table ip splitbrain", "-n nft delete table ip splitbrain"]
    assert told["asked"] == [undone[:1], ["-n -- timeout --signal KILL 61 nft -j -f -", *undone]]
    assert told["left"] == []
