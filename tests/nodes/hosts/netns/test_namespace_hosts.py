"""Hosts as namespaces, played in real sandboxes by either right: addresses, cuts and processes."""

from __future__ import annotations

from itertools import permutations

import pytest

pytestmark = pytest.mark.netns


def test_each_of_five_hosts_has_its_own_address_name_and_namespaces(stage):
    told = stage.play("five_hosts")
    names, addresses, mounts, networks = zip(*told["words"].values(), strict=True)
    assert names == ("n1", "n2", "n3", "n4", "n5")
    assert addresses == tuple(f"10.77.0.{node}/24" for node in range(1, 6))
    assert list(told["known"].values()) == [f"10.77.0.{node}" for node in range(1, 6)]
    assert len({*mounts, told["own"][0]}) == 6
    assert len({*networks, told["own"][1]}) == 6


def test_a_mount_on_one_host_is_not_seen_on_another(stage):
    assert stage.play("five_hosts")["mounted"] == ["yes", "no"]


def test_cuts_are_one_way_and_add_up_and_one_mend_undoes_them_all(stage):
    failing = stage.play("cuts")["failing"]
    assert failing == {
        "at first": [],
        "one way": [[1, 2]],
        "two cuts": [[1, 2], [3, 1], [3, 2]],
        "mended": [],
        "mended twice": [],
        # Nothing of ours is cut here: the probe tells what the network does, not what was asked of it.
        "cable out": sorted(list(link) for link in permutations((1, 2, 3), 2) if 3 in link),
    }


def test_a_late_probe_does_not_vouch_for_a_link_that_was_cut_since(stage):
    assert stage.play("late_probe") == {"there": False, "back": True}


def test_the_controller_reaches_nodes_that_are_cut_off(stage):
    assert stage.play("cuts")["refusals"] == [True, True, True]


def test_the_state_of_a_server_is_what_the_kernel_says_after_each_deed(stage):
    told = stage.play("processes")
    assert told["states"] == ["gone", "running", "paused", "running", "gone", "running", "gone"]
    assert [event for event in told["events"] if event[0] == 1] == [
        [1, "started", ""],
        [1, "stopped", "SIGTERM"],
        [1, "started", ""],
        [1, "stopped", "SIGKILL"],
    ]


def test_a_log_is_appended_over_restarts_and_a_failing_server_says_how_it_ended(stage):
    told = stage.play("processes")
    assert told["log"].startswith("ready\n")
    assert [3, "stopped", "exit 3"] in told["events"]


def test_a_server_that_ignores_sigterm_is_reported_and_a_paused_one_can_be_killed(stage):
    told = stage.play("processes")
    assert told["refusal"] == "ending n2 by SIGTERM: still there after 0.3 s"
    assert told["last"] == "gone"
    assert [2, "stopped", "SIGKILL"] in told["events"]


def test_a_crash_that_nobody_asked_for_is_told(stage):
    told = stage.play("crash")
    assert told["events"] == [[1, "started", ""], [1, "stopped", "SIGSEGV"]]
    assert told["state"] == "gone"
