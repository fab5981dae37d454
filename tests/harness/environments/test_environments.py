"""One conformance suite for every kind of host: the same play, the same outcome; a killed controller leaves nothing."""

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
from tests.support.command import begin, environment, processes_naming, splitbrain, wait_until
from tests.support.environments.environment_scene import plan_of

SCENE = SUPPORT / "environments" / "environment_scene.py"
MACHINES = SUPPORT / "nodes" / "with_ssh_machines.py"
KINDS = ["netns", "local", "docker"]
SCENE_SECONDS = 120
pytestmark = [pytest.mark.netns, pytest.mark.timeout(180)]


@pytest.fixture(params=KINDS)
def kind(request):
    """A kind of host that this machine has."""
    if request.param == "docker":
        request.getfixturevalue("docker_engine")
    return request.param


@pytest.fixture
def told(kind, tmp_path):
    """What the play on hosts of this kind told."""
    argv = controller_command(plan_of(kind, None), [str(SCENE), kind, str(tmp_path / "run")])
    yield play(argv, tmp_path)
    assert processes_naming(tmp_path) == []
    assert pending(tmp_path / "run" / "journal.jsonl") == []


@pytest.fixture
def told_over_ssh(sshd, tmp_path):
    """The same of machines: real sshd's in the namespaces of a sandbox, in which the controller is too."""
    argv = [sys.executable, str(MACHINES), "3", str(tmp_path / "m"), sys.executable, str(SCENE), "ssh"]
    yield play([*argv, str(tmp_path / "run"), "INVENTORY"], tmp_path, **sshd)
    assert pending(tmp_path / "run" / "journal.jsonl") == []


def play(argv, tmp_path, **settings):
    """Run a play to its end; what it told."""
    path = f"{SCENE.parent}:{environment()['PYTHONPATH']}"
    there = environment(PYTHONPATH=path, **settings)
    said = subprocess.run(
        argv, capture_output=True, text=True, timeout=SCENE_SECONDS, check=False, env=there, cwd=tmp_path
    )
    assert said.returncode == 0, said.stderr[-3000:]
    return json.loads(said.stdout)


def test_every_kind_of_host_does_the_same(told):
    conforms(told)
    assert told["rpcs"] == ["through"]
    moved, reset = told["clock_ms"]
    assert abs(moved - 5000) <= 2
    assert abs(reset) <= 2


def test_machines_do_the_same_and_say_what_they_cannot(told_over_ssh):
    conforms(told_over_ssh)
    assert "own machine only" in told_over_ssh["rpcs"]
    assert "own machine only" in told_over_ssh["clock_ms"]


def conforms(told):
    assert told["files"] == {"seen": "written\n", "quoted": "$(id); `id` 'x' \"y\"", "same": "True"}
    assert told["states"] == ["running", "gone", "paused", "running", "gone"]
    assert told["dead"] == {
        "at first": [],
        "one way": [[1, 2]],
        "the other way": [[2, 1]],
        "mended twice": [],
    }
    assert [1, "stopped", "SIGKILL"] in told["events"]
    assert [each for each in told["events"] if each[0] == 2][:2] == [[2, "started", ""], [2, "stopped", "exit 0"]]
    assert told["transitions"] == [1, 2, 3]


def test_a_killed_controller_leaves_nothing_and_its_run_can_be_healed_twice(kind, tmp_path):
    flags = ["--hosts", kind, "--workload", "register", "--faults", "partition,pause,clock", "--interval", "1"]
    command = begin("run", *flags, "--time-limit", "60", "--rate", "20", "--seed", "3", "--store", tmp_path)
    try:
        wait_until(lambda: faults_begun(tmp_path), "a fault is in place", 90, command)
        (controller,) = [int(json.loads(path.read_text())["pid"]) for path in tmp_path.glob("*/sandbox.json")]
    finally:
        command.kill()
        command.wait()
    os.kill(controller, 9) if Path(f"/proc/{controller}").exists() else None
    wait_until(lambda: processes_naming(tmp_path) == [], "nothing is left of it", 30)
    assert [splitbrain("heal", "--store", tmp_path).code for _ in range(2)] == [EXIT_VALID, EXIT_VALID]
    (run,) = runs(tmp_path)
    assert (run.status, pending(run.journal)) == ("interrupted", [])
    if kind == "docker":
        from nodes.hosts.docker import engine as docker_engine

        with docker_engine.engine() as client:
            ours = {"label": f"{docker_engine.LABEL}={run.label}"}
            assert client.api.containers(all=True, filters=ours) == client.api.networks(filters=ours) == []


def faults_begun(store: Path) -> bool:
    entries = [json.loads(line) for path in store.glob("*/journal.jsonl") for line in path.read_text().splitlines()]
    return any(entry.get("fault", "hosts") != "hosts" for entry in entries)


def test_a_kind_that_is_not_there_says_so_in_one_line(tmp_path):
    said = splitbrain("run", "--hosts", "docker", "--store", tmp_path, DOCKER_HOST="unix:///nonexistent.sock")
    assert said.code == 255
    assert said.messages[-1].startswith("splitbrain: ")
    assert "no response at" in said.messages[-1] or "needs root" in said.messages[-1]
