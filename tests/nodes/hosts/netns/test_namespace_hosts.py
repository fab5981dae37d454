"""Namespace hosts in real sandboxes with each privilege: addresses, cuts and processes."""

from __future__ import annotations

from itertools import permutations

import pytest

pytestmark = pytest.mark.netns


def test_each_of_five_hosts_has_its_own_address_name_and_namespaces(sandbox):
    result = sandbox.run("five_hosts")
    names, addresses, mounts, networks = zip(*result["identities"].values(), strict=True)
    assert names == ("n1", "n2", "n3", "n4", "n5")
    assert addresses == tuple(f"10.77.0.{node}/24" for node in range(1, 6))
    assert list(result["addresses"].values()) == [f"10.77.0.{node}" for node in range(1, 6)]
    assert len({*mounts, result["own"][0]}) == 6
    assert len({*networks, result["own"][1]}) == 6


def test_a_mount_on_one_host_is_not_visible_on_another(sandbox):
    assert sandbox.run("five_hosts")["mounted"] == ["yes", "no"]


def test_cuts_have_a_direction_and_accumulate_and_heal_removes_all(sandbox):
    failing = sandbox.run("cuts")["failing"]
    assert failing == {
        "initially": [],
        "one direction": [[1, 2]],
        "two cuts": [[1, 2], [3, 1], [3, 2]],
        "healed": [],
        "healed twice": [],
        # No link is cut here: the probe measures the network, not the cuts that were requested.
        "interface down": sorted(list(link) for link in permutations((1, 2, 3), 2) if 3 in link),
    }


def test_a_late_probe_does_not_make_a_cut_link_look_open(sandbox):
    assert sandbox.run("late_probe") == {"forward": False, "backward": True}


def test_the_controller_reaches_partitioned_nodes(sandbox):
    assert sandbox.run("cuts")["refusals"] == [True, True, True]


def test_the_state_of_a_server_is_what_the_kernel_reports_after_each_action(sandbox):
    result = sandbox.run("processes")
    assert result["states"] == ["gone", "running", "paused", "running", "gone", "running", "gone"]
    assert [event for event in result["events"] if event[0] == 1] == [
        [1, "started", ""],
        [1, "stopped", "SIGTERM"],
        [1, "started", ""],
        [1, "stopped", "SIGKILL"],
    ]


def test_a_log_is_appended_across_restarts_and_the_exit_of_a_failing_server_is_reported(sandbox):
    result = sandbox.run("processes")
    assert result["log"].startswith("ready\n")
    assert [3, "exited", "exit 3"] in result["events"]


def test_a_server_that_ignores_sigterm_is_reported_and_a_paused_one_can_be_killed(sandbox):
    result = sandbox.run("processes")
    assert result["refusal"] == "ending n2 with SIGTERM: still running after 0.3 s"
    assert result["last"] == "gone"
    assert [2, "stopped", "SIGKILL"] in result["events"]


def test_an_unexpected_crash_is_reported(sandbox):
    result = sandbox.run("crash")
    assert result["events"] == [[1, "started", ""], [1, "exited", "SIGSEGV"]]
    assert result["state"] == "gone"
