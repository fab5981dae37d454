"""Conformance suite for kinds of host: the same script has the same result; a killed controller leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.model.errors import EXIT_VALID
from harness.running.controller_process import controller_command
from nemesis.journal import pending
from results.store import runs
from tests.support import SUPPORT
from tests.support.command import environment, processes_naming, splitbrain, start_splitbrain, wait_until
from tests.support.environments.conformance import plan_of

SCRIPT = SUPPORT / "environments" / "conformance.py"
MACHINES = SUPPORT / "nodes" / "with_ssh_machines.py"
KINDS = ["netns", "local", "docker"]
SCRIPT_SECONDS = 120
pytestmark = [pytest.mark.netns, pytest.mark.timeout(180)]


@pytest.fixture(params=KINDS)
def kind(request):
    """A kind of host that this machine supports."""
    if request.param == "docker":
        request.getfixturevalue("docker_engine")
    return request.param


@pytest.fixture
def result(kind, tmp_path):
    """The result of the script on hosts of this kind."""
    argv = controller_command(plan_of(kind, None), [str(SCRIPT), kind, str(tmp_path / "run")])
    yield run_script(argv, tmp_path)
    assert processes_naming(tmp_path) == []
    assert pending(tmp_path / "run" / "journal.jsonl") == []


@pytest.fixture
def result_over_ssh(sshd, tmp_path):
    """The same over SSH: real sshd processes and the controller share a sandbox, each sshd in its own namespaces."""
    argv = [sys.executable, str(MACHINES), "3", str(tmp_path / "m"), sys.executable, str(SCRIPT), "ssh"]
    yield run_script([*argv, str(tmp_path / "run"), "INVENTORY"], tmp_path, **sshd)
    assert pending(tmp_path / "run" / "journal.jsonl") == []


def run_script(argv, tmp_path, **extra_environment):
    path = f"{SCRIPT.parent}:{environment()['PYTHONPATH']}"
    env = environment(PYTHONPATH=path, **extra_environment)
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=SCRIPT_SECONDS, check=False, env=env, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_every_kind_of_host_on_this_machine_conforms(result):
    assert_conforms(result)
    assert result["rpcs"] == ["proxied"]
    skewed_ms, reset_ms = result["clock_ms"]
    assert abs(skewed_ms - 5000) <= 2
    assert abs(reset_ms) <= 2


def test_ssh_hosts_conform_and_report_rpc_rules_and_clocks_as_unavailable(result_over_ssh):
    assert_conforms(result_over_ssh)
    assert "own machine only" in result_over_ssh["rpcs"]
    assert "own machine only" in result_over_ssh["clock_ms"]


def assert_conforms(result):
    assert result["files"] == {"read": "written\n", "quoted": "$(id); `id` 'x' \"y\"", "same": "True"}
    assert result["states"] == ["running", "gone", "paused", "running", "gone"]
    assert result["cut"] == {
        "before": [],
        "one direction": [[1, 2]],
        "other direction": [[2, 1]],
        "healed twice": [],
    }
    assert [1, "stopped", "SIGKILL"] in result["events"]
    assert [each for each in result["events"] if each[0] == 2][:2] == [[2, "started", ""], [2, "stopped", "exit 0"]]
    assert result["transitions"] == [1, 2, 3]


def test_killed_controller_leaves_nothing_and_its_run_can_be_healed_twice(kind, tmp_path):
    flags = ["--hosts", kind, "--workload", "register", "--faults", "partition,pause,clock", "--interval", "1"]
    command = start_splitbrain("run", *flags, "--time-limit", "60", "--rate", "20", "--seed", "3", "--store", tmp_path)
    try:
        wait_until(lambda: has_active_fault(tmp_path), "a fault is active", 90, command)
        (controller,) = [int(json.loads(path.read_text())["pid"]) for path in tmp_path.glob("2*/sandbox.json")]
    finally:
        command.kill()
        command.wait()
    os.kill(controller, 9) if Path(f"/proc/{controller}").exists() else None
    wait_until(lambda: processes_naming(tmp_path) == [], "no process of the run is left", 30)
    assert [splitbrain("heal", "--store", tmp_path).code for _ in range(2)] == [EXIT_VALID, EXIT_VALID]
    (run,) = runs(tmp_path)
    assert (run.status, pending(run.journal)) == ("interrupted", [])
    if kind == "docker":
        from nodes.hosts.docker import engine as docker_engine

        with docker_engine.engine() as client:
            filters = {"label": f"{docker_engine.LABEL}={run.label}"}
            assert client.api.containers(all=True, filters=filters) == client.api.networks(filters=filters) == []


def has_active_fault(store: Path) -> bool:
    entries = [json.loads(line) for path in store.glob("2*/journal.jsonl") for line in path.read_text().splitlines()]
    return any(entry.get("fault", "hosts") != "hosts" for entry in entries)


def test_unavailable_kind_of_host_is_reported_in_one_line(tmp_path):
    result = splitbrain("run", "--hosts", "docker", "--store", tmp_path, DOCKER_HOST="unix:///nonexistent.sock")
    assert result.code == 255
    assert result.messages[-1].startswith("splitbrain: ")
    assert "no response at" in result.messages[-1] or "needs root" in result.messages[-1]
