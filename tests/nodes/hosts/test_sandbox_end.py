"""Nothing outlives a sandbox, whether it ends well, fails or loses whoever started it; and two do not meet."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from harness.model import EnvironmentFailure
from nodes.hosts.sandbox import Privilege, enclose, probe
from tests.support.command import wait_until

pytestmark = pytest.mark.netns

END_SECONDS = 15.0
START_AND_WAIT = "import subprocess, sys; subprocess.run(sys.argv[1:])"


def machine_is_clean() -> bool:
    """Whether the machine's own network namespace holds no bridge, cable or table of ours."""
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=False).stdout
    devices = os.listdir("/sys/class/net")
    return "splitbrain" not in tables and "splitbrain0" not in devices and not {"v1", "v2", "v3"} & set(devices)


def test_nothing_is_left_after_a_scene_ended_well(stage, alive_in):
    with stage.begin("inhabited") as (process, told):
        assert len(alive_in(told["namespaces"])) >= 7
        process.stdin.close()
        assert process.wait(END_SECONDS) == 0
    assert alive_in(told["namespaces"]) == []
    assert machine_is_clean()


def test_nothing_is_left_after_an_exception(stage, alive_in):
    with stage.begin("cut_apart") as (process, told):
        assert len(alive_in(told["namespaces"])) >= 4
        _, errors = process.communicate("fail\n", timeout=END_SECONDS)
        assert process.returncode == 1
        assert "told to fail" in errors
    assert alive_in(told["namespaces"]) == []
    assert machine_is_clean()


def test_nothing_is_left_when_the_sandbox_itself_is_killed(stage, alive_in):
    with stage.begin("cut_apart") as (process, told):
        assert len(alive_in(told["namespaces"])) >= 4
        process.kill()
        wait_until(lambda: alive_in(told["namespaces"]) == [], "no process is left in the sandbox")
    assert machine_is_clean()


def test_nothing_is_left_when_the_parent_of_the_sandbox_is_killed(stage, alive_in):
    argv = [sys.executable, "-c", START_AND_WAIT, *stage.command("cut_apart")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, **pipes, **stage.options) as parent:
        told = json.loads(parent.stdout.readline())
        assert len(alive_in(told["namespaces"])) >= 7
        parent.kill()
        parent.wait()
        wait_until(lambda: alive_in(told["namespaces"]) == [], "no process is left in the sandbox")
    assert machine_is_clean()


def test_two_sandboxes_side_by_side_do_not_see_each_other(stage):
    with stage.begin("cut_apart", "one") as (_, one), stage.begin("inhabited", "other") as (_, other):
        assert (one["passing"], other["passing"]) == (0, 6)
        assert not set(one["namespaces"]) & set(other["namespaces"])
        assert not [command for command in other["commands"] if str(stage.directory / "one") in command]


def test_root_is_asked_for_no_user_namespace_and_others_are(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--map-root-user" not in enclose(["true"], Privilege.detect())
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "--map-root-user" in enclose(["true"], Privilege.detect())


def test_a_machine_without_nft_is_told_of_its_package(monkeypatch, tmp_path):
    for tool in ("setpriv", "unshare", "nsenter", "ip", "sh"):
        (tmp_path / tool).symlink_to(subprocess.check_output(["which", tool], text=True).strip())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match=r"nft.*apt-get install -y .*nftables"):
        probe(Privilege.detect())
