"""SSH hosts, with a real sshd in each namespace of a sandbox: trust, files, cuts, servers, leases and heal."""

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
CASES = SUPPORT / "nodes" / "ssh_cases.py"
CASE_SECONDS = 90


@pytest.fixture(scope="module")
def run_case(sshd, tmp_path_factory):
    """Runs a case of ssh_cases.py in a sandbox; its results, line by line."""

    def run(case):
        tmp_path = tmp_path_factory.mktemp(case)
        argv = enclose([sys.executable, str(CASES), case, str(tmp_path)], Privilege.detect())
        variables = {**os.environ, **sshd, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        result = subprocess.run(argv, capture_output=True, text=True, timeout=CASE_SECONDS, env=variables, cwd=tmp_path)
        logs = "".join(log.read_text() for log in tmp_path.glob("n*/sshd.log"))
        assert result.returncode == 0, result.stderr + logs
        assert result.stderr == ""
        return [json.loads(line) for line in result.stdout.splitlines()]

    return run


@pytest.fixture(scope="module")
def files(run_case):
    """The results of the case `files`, which several tests check."""
    return run_case("files")


def test_files_folders_and_commands_reach_a_machine_and_no_shell_interprets_them(files):
    result, after = files
    assert result["written"] == "written here\n"
    assert result["special"] == "a b|$(touch x)|; touch y|`touch z`|it's|new\nline|*|"
    assert result["touched"] == []
    assert result["identical"] == [True, True]
    assert result["view"] == ["10.77.0.1", "n1"]
    assert after == {"left": [], "mirrored": ["deep", "folder", "one"]}


def test_a_failed_command_is_reported_in_one_line_with_its_machine_and_a_timed_out_one_is_killed(files):
    result, _ = files
    where = "on n1 (root@10.77.0.1:22): "
    assert result["failing"] == (
        f"running ls /nowhere {where}exit 2: ls: cannot access '/nowhere': No such file or directory"
    )
    assert result["endless"] == f"running sleep 987654 {where}timed out after 0.3 s"
    assert result["missing"].endswith(f"{where}[Errno 2] No such file")


def test_a_command_does_not_wait_for_delayed_acknowledgements(files):
    """With Nagle's algorithm (RFC 896) a command on an open connection takes 40 ms longer."""
    result, _ = files
    assert result["command_ms"]["as opened"] < result["command_ms"]["with delays"]


def test_cuts_have_a_direction_heal_individually_and_do_not_affect_the_controller(run_case):
    (result,) = run_case("cuts")
    assert result["failing"] == {
        "initially": [],
        "one direction": [[1, 2]],
        "two cuts": [[1, 2], [3, 1], [3, 2]],
        "one healed": [[1, 2], [3, 2]],
        "healed": [],
    }
    assert result["reached"] == ["n1", "n2", "n3"]
    assert result["refused"]


def test_the_state_of_a_server_is_what_the_remote_kernel_reports_and_each_end_is_reported(run_case):
    (result,) = run_case("processes")
    assert result["states"] == ["gone", "running", "paused", "running", "gone", "running", "gone"]
    assert result["events"] == [
        [1, "started", ""],
        [1, "stopped", "SIGTERM"],
        [1, "started", ""],
        [1, "stopped", "SIGKILL"],
        [2, "started", ""],
        [2, "stopped", "SIGKILL"],
        [3, "started", ""],
        [3, "exited", "exit 3"],
    ]
    assert result["stubborn"] == "ending n2 with SIGTERM: still running after 0.3 s"
    assert result["last"] == "gone"
    assert result["log"].startswith("ready\n")


def test_a_reference_quorum_elects_another_leader_and_its_files_are_mirrored(run_case):
    leaders, after = run_case("quorum")
    assert leaders["first"] != leaders["second"]
    assert after == {"left": [], "fetched": True}


def test_leases_undo_everything_when_the_controller_is_killed(run_case):
    (result,) = run_case("killed")
    assert result["passing"] == [[2, 1]]
    assert result["held"] > 0
    assert (result["left"], result["healed"]) == ([], [])


def test_heal_undoes_what_leases_did_not_and_can_be_repeated(run_case):
    assert run_case("healed") == [{"before": 2, "after": [[], []]}]


def test_a_server_whose_connection_is_lost_is_reported_and_killed_by_its_lease(run_case):
    (result,) = run_case("dropped")
    assert result["states"] == ["gone", "running"]
    assert [1, "exited", "connection lost"] in result["events"]
    assert result["ending"].startswith("ending the lease of n1 (root@10.77.0.1:22): ")
    assert result["left"] == []


def test_only_machines_with_a_known_host_key_are_trusted(run_case):
    outcomes = run_case("trust")[0]["outcomes"]
    assert (outcomes["known"], outcomes["accepted"]) == ("welcome\n", "welcome\n")
    assert "its host key ssh-ed25519 AAAA" in outcomes["unknown"]
    assert "is not known; add it to known_hosts" in outcomes["unknown"]
    assert "does not match" in outcomes["wrong key"]
    for name in ("refused", "no such user"):
        assert outcomes[name].endswith("Authentication failed.")
    assert outcomes["no key"].endswith("No such file or directory: '/nowhere/key'")


def test_connecting_is_retried_and_fails_after_the_last_attempt(run_case):
    (result,) = run_case("late")
    assert result["late"] == "welcome\n"
    assert result["never"].startswith("connecting to n1 (root@10.77.0.1:22): ")
    assert result["attempts"] == 6


def test_privileged_commands_go_through_sudo_if_the_inventory_says_so(run_case):
    (result,) = run_case("sudo")
    assert result["passing"] == [[2, 1]]
    undone = ["-n nft list table ip splitbrain", "-n nft delete table ip splitbrain"]
    assert result["commands"] == [undone[:1], ["-n -- timeout --signal KILL 61 nft -j -f -", *undone]]
    assert result["left"] == []
