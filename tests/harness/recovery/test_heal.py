"""What `splitbrain heal` ends and what it never touches: processes are known by pid and start time."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from harness.model import BadInput
from harness.model.hosts import UndoRecord
from harness.recovery.heal import heal_before_a_run, heal_before_judging, heal_store
from harness.recovery.liveness import OWNER, SANDBOX, own, started_ticks
from nemesis.journal import UndoJournal, pending
from results.files import write_json
from results.store import new_run

NOBODY = {"pid": 2**22 + 1, "started_ticks": 1}
"""A process that cannot be: its pid is beyond the kernel's limit."""


@pytest.fixture
def run(tmp_path):
    """A run that says it is running, with one fault open; its owner is gone."""
    run = new_run(tmp_path, "left", datetime.now(UTC))
    run.enter("running", datetime.now(UTC))
    write_json(run.path / OWNER, NOBODY)
    UndoJournal(run.journal).record(UndoRecord("kill", "start", {"nodes": [1]}))
    return run


@pytest.fixture
def bystander():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def heal(run):
    return list(heal_store(run.path.parent))


def test_a_sandbox_that_outlived_its_command_is_ended(run, bystander):
    write_json(run.path / SANDBOX, {"pid": bystander.pid, "started_ticks": started_ticks(bystander.pid)})
    assert heal(run)[0] == f"{run.name}: ended its controller, process {bystander.pid}, and everything in its sandbox"
    assert bystander.wait(5) == -signal.SIGKILL


def test_a_process_that_only_has_the_sandbox_s_pid_is_never_touched(run, bystander):
    write_json(run.path / SANDBOX, {"pid": bystander.pid, "started_ticks": (started_ticks(bystander.pid) or 0) - 1})
    (line,) = heal(run)
    assert line.startswith(f"{run.name}: interrupted, 1 open faults gone with its hosts")
    assert bystander.poll() is None


def test_a_run_whose_command_lives_is_left_alone(run):
    own(run)
    assert heal(run) == ["nothing to heal"]
    assert (run.status, len(pending(run.journal))) == ("running", 1)


def test_healing_crosses_out_the_faults_and_says_so_once(run):
    assert len(heal(run)) == 1
    assert (run.status, pending(run.journal)) == ("interrupted", [])
    assert heal(run) == ["nothing to heal"]


def test_of_many_that_heal_at_once_each_run_is_healed_by_one(tmp_path):
    abandoned = [new_run(tmp_path, f"left-{number}", datetime.now(UTC)) for number in range(8)]
    for run in abandoned:
        run.enter("running", datetime.now(UTC))
        UndoJournal(run.journal).record(UndoRecord("kill", "start", {"nodes": [1]}))
    with ThreadPoolExecutor(8) as pool:
        told = [line for lines in pool.map(lambda _: list(heal_before_a_run(tmp_path)), range(8)) for line in lines]
    assert sorted(line.partition(":")[0] for line in told) == sorted(run.name for run in abandoned)
    assert {run.status for run in abandoned} == {"interrupted"}


def test_a_run_that_never_came_to_own_itself_is_healed_too(tmp_path):
    run = new_run(tmp_path, "unborn", datetime.now(UTC))
    assert heal(run)[0].startswith(f"{run.name}: interrupted")


def test_a_damaged_owner_file_does_not_pass_for_a_living_command(run):
    write_json(run.path / OWNER, {"pid": os.getpid(), "started_ticks": None})
    assert len(heal(run)) == 1


def test_a_new_run_heals_an_abandoned_one_and_leaves_one_that_just_begins(tmp_path):
    now = datetime.now(UTC)
    abandoned, beginning = new_run(tmp_path, "abandoned", now), new_run(tmp_path, "beginning", now)
    abandoned.enter("running", now)
    assert [line.split(":")[0] for line in heal_before_a_run(tmp_path)] == [abandoned.name]
    assert (abandoned.status, beginning.status) == ("interrupted", "created")
    assert list(heal_before_a_run(tmp_path / "nowhere")) == []


def test_a_run_that_is_still_carried_out_is_not_judged(tmp_path):
    now = datetime.now(UTC)
    run = new_run(tmp_path, "busy", now)
    own(run)
    run.enter("running", now)
    with pytest.raises(BadInput, match="expected a run that has ended"):
        list(heal_before_judging(run))
    assert run.status == "running"
