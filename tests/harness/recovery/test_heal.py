"""What `splitbrain heal` ends, and what it never touches. Processes are identified by pid and start time."""

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

DEAD_PROCESS = {"pid": 2**22 + 1, "started_ticks": 1}
"""A process that cannot exist: its pid is above the kernel's limit."""


@pytest.fixture
def run(tmp_path):
    """A run with status `running` and one open fault, whose owner is gone."""
    run = new_run(tmp_path, "left", datetime.now(UTC))
    run.enter("running", datetime.now(UTC))
    write_json(run.path / OWNER, DEAD_PROCESS)
    UndoJournal(run.journal).record(UndoRecord("kill", "start", {"nodes": [1]}))
    return run


@pytest.fixture
def bystander():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def heal(run):
    return list(heal_store(run.path.parent))


def test_sandbox_that_outlived_its_command_is_ended(run, bystander):
    write_json(run.path / SANDBOX, {"pid": bystander.pid, "started_ticks": started_ticks(bystander.pid)})
    assert heal(run)[0] == f"{run.name}: ended its controller, process {bystander.pid}, and everything in its sandbox"
    assert bystander.wait(5) == -signal.SIGKILL


def test_other_process_with_the_pid_of_the_sandbox_is_not_touched(run, bystander):
    write_json(run.path / SANDBOX, {"pid": bystander.pid, "started_ticks": (started_ticks(bystander.pid) or 0) - 1})
    (line,) = heal(run)
    assert line.startswith(f"{run.name}: interrupted, 1 open fault gone with its hosts")
    assert bystander.poll() is None


def test_run_with_a_live_command_is_not_healed(run):
    own(run)
    assert heal(run) == ["nothing to heal"]
    assert (run.status, len(pending(run.journal))) == ("running", 1)


def test_healing_closes_the_open_faults_and_reports_it_once(run):
    assert len(heal(run)) == 1
    assert (run.status, pending(run.journal)) == ("interrupted", [])
    assert heal(run) == ["nothing to heal"]


def test_concurrent_heals_heal_each_run_once(tmp_path):
    abandoned = [new_run(tmp_path, f"left-{number}", datetime.now(UTC)) for number in range(8)]
    for run in abandoned:
        run.enter("running", datetime.now(UTC))
        UndoJournal(run.journal).record(UndoRecord("kill", "start", {"nodes": [1]}))
    with ThreadPoolExecutor(8) as pool:
        reported = [line for lines in pool.map(lambda _: list(heal_before_a_run(tmp_path)), range(8)) for line in lines]
    assert sorted(line.partition(":")[0] for line in reported) == sorted(run.name for run in abandoned)
    assert {run.status for run in abandoned} == {"interrupted"}


def test_run_without_an_owner_file_is_healed(tmp_path):
    run = new_run(tmp_path, "no-owner", datetime.now(UTC))
    assert heal(run)[0].startswith(f"{run.name}: interrupted")


def test_damaged_owner_file_does_not_count_as_a_live_command(run):
    write_json(run.path / OWNER, {"pid": os.getpid(), "started_ticks": None})
    assert len(heal(run)) == 1


def test_new_run_heals_abandoned_runs_and_skips_runs_that_are_starting(tmp_path):
    now = datetime.now(UTC)
    abandoned, starting = new_run(tmp_path, "abandoned", now), new_run(tmp_path, "starting", now)
    abandoned.enter("running", now)
    assert [line.split(":")[0] for line in heal_before_a_run(tmp_path)] == [abandoned.name]
    assert (abandoned.status, starting.status) == ("interrupted", "created")
    assert list(heal_before_a_run(tmp_path / "missing")) == []


def test_run_that_is_still_running_is_not_checked(tmp_path):
    now = datetime.now(UTC)
    run = new_run(tmp_path, "busy", now)
    own(run)
    run.enter("running", now)
    with pytest.raises(BadInput, match="expected a run that has ended"):
        list(heal_before_judging(run))
    assert run.status == "running"
