"""Nothing outlives a sandbox that completes, fails or is killed; two sandboxes are isolated from each other."""

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
    """Whether the machine's own network namespace has no bridge, veth or nft table of ours."""
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=False).stdout
    devices = os.listdir("/sys/class/net")
    return "splitbrain" not in tables and "splitbrain0" not in devices and not {"v1", "v2", "v3"} & set(devices)


def test_nothing_is_left_after_a_normal_end(sandbox, alive_in):
    with sandbox.start("servers_running") as (process, result):
        assert len(alive_in(result["namespaces"])) >= 7
        process.stdin.close()
        assert process.wait(END_SECONDS) == 0
    assert alive_in(result["namespaces"]) == []
    assert machine_is_clean()


def test_nothing_is_left_after_an_exception(sandbox, alive_in):
    with sandbox.start("all_links_cut") as (process, result):
        assert len(alive_in(result["namespaces"])) >= 4
        _, errors = process.communicate("fail\n", timeout=END_SECONDS)
        assert process.returncode == 1
        assert "failed on request" in errors
    assert alive_in(result["namespaces"]) == []
    assert machine_is_clean()


def test_nothing_is_left_when_the_sandbox_itself_is_killed(sandbox, alive_in):
    with sandbox.start("all_links_cut") as (process, result):
        assert len(alive_in(result["namespaces"])) >= 4
        process.kill()
        wait_until(lambda: alive_in(result["namespaces"]) == [], "no process is left in the sandbox")
    assert machine_is_clean()


def test_nothing_is_left_when_the_parent_of_the_sandbox_is_killed(sandbox, alive_in):
    argv = [sys.executable, "-c", START_AND_WAIT, *sandbox.case("all_links_cut")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, **pipes, **sandbox.options) as parent:
        result = json.loads(parent.stdout.readline())
        assert len(alive_in(result["namespaces"])) >= 7
        parent.kill()
        parent.wait()
        wait_until(lambda: alive_in(result["namespaces"]) == [], "no process is left in the sandbox")
    assert machine_is_clean()


def test_two_concurrent_sandboxes_are_isolated(sandbox):
    with sandbox.start("all_links_cut", "one") as (_, one), sandbox.start("servers_running", "other") as (_, other):
        assert (one["passing"], other["passing"]) == (0, 6)
        assert not set(one["namespaces"]) & set(other["namespaces"])
        assert not [command for command in other["commands"] if str(sandbox.directory / "one") in command]


def test_only_ordinary_users_need_a_user_namespace(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--map-root-user" not in enclose(["true"], Privilege.detect())
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "--map-root-user" in enclose(["true"], Privilege.detect())


def test_a_missing_nft_is_reported_with_its_package(monkeypatch, tmp_path):
    for tool in ("setpriv", "unshare", "nsenter", "ip", "sh"):
        (tmp_path / tool).symlink_to(subprocess.check_output(["which", tool], text=True).strip())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match=r"nft.*apt-get install -y .*nftables"):
        probe(Privilege.detect())
