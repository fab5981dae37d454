"""`splitbrain run` killed at random times: its recorded history is readable, and nothing else is left behind.

Twelve runs, four at a time: SPLITBRAIN_KILLS runs (3 by default) for each of four points. They run the reference system
with clients under all faults, two at once, on disks of the nodes' own. Each run is killed a random time after it has
reached its point; the times come from a fixed seed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import plugins
from harness.engine.records import read_history
from harness.model.errors import EXIT_UNKNOWN, EXIT_VALID
from nemesis.journal import pending
from results.store import RunDirectory, runs
from tests.support.command import processes_naming, splitbrain, splitbrain_here, start_splitbrain, wait_until

pytestmark = [pytest.mark.netns, pytest.mark.timeout(600 if "SPLITBRAIN_KILLS" in os.environ else 200)]

PARALLEL = 4
LOOPS = Path("/sys/block")
CGROUPS = Path("/sys/fs/cgroup")
PROCESSES_WHEN_RUNNING = 5  # at least unshare, the controller and three nodes mention the run's directory
PROCESSES_UNDER_FAULTS = 2  # a fault may have killed every node
POINTS = {
    # point: the files that show that a run has reached it, how many, and the longest time in seconds until the kill
    "started": ("", 0, 1.5),
    "has a sandbox": ("sandbox.json", 1, 1.0),
    "has recorded": ("history/*.parquet", 5, 2.0),  # the first ones have one operation each
    "is under faults": ("journal.jsonl", 1, 6.0),
}
UNAVAILABLE = plugins.system("reference")[0].reasons("controllers", None)
FAULTS = [name for name in plugins.faults() if name not in UNAVAILABLE]
DISK = "ext4" if os.geteuid() == 0 else "tmpfs"
FLAGS = ["--system", "reference", "--workload", "register", "--faults", ",".join(FAULTS), "--at-once", "2"]
FLAGS += ["--interval", "1", "--disk", DISK, "--disk-mib", "32"]
FLAGS += ["--memory-mib", "512"] if os.geteuid() == 0 else []  # a cgroup outlives its sandbox
LOAD = ["--time-limit", "60", "--rate", "50", "--concurrency", "4"]
EACH = int(os.environ.get("SPLITBRAIN_KILLS", "3"))
KILLS = [f"{point} {number}" for point in POINTS for number in range(EACH)]
HEALED_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Aftermath:
    """A store of killed runs.

    before is the number of processes before each kill, left the processes that remained after it. healed and
    healed_again are the output of two heals.
    """

    store: Path
    before: list[int]
    left: list[list[str]]
    healed: list[str]
    healed_again: list[str]

    def has_run_named(self, name: str) -> bool:
        """Whether a name contains the label of one of these runs."""
        return any(run.label in name for run in self.runs)

    @property
    def runs(self) -> list[RunDirectory]:
        return runs(self.store)


def start_and_kill(kill: str, store: Path) -> tuple[int, list[str]]:
    """Start a run and kill it; the number of its processes before the kill, and those left at the deadline."""
    files, count, seconds_max = POINTS[kill.rpartition(" ")[0]]
    name = kill.replace(" ", "_")
    command = start_splitbrain("run", *FLAGS, *LOAD, "--name", name, "--seed", KILLS.index(kill), "--store", store)
    if files:
        pattern = f"*-{name}-*/{files}"
        wait_until(lambda: len(list(store.glob(pattern))) >= count, f"the run {kill}", command=command)
    time.sleep(random.Random(kill).uniform(0, seconds_max))
    before = len(processes_of(name, store))
    assert command.poll() is None, f"{kill}: the run ended before it was killed"
    command.kill()
    command.wait()
    deadline = time.monotonic() + HEALED_SECONDS
    while (left := processes_of(name, store)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return before, left


def processes_of(name: str, store: Path) -> list[str]:
    """The processes of a run without its command; the run's directory contains its name, which is unique."""
    return [words for words in processes_naming(store) if f"-{name}-" in words]


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    store = tmp_path_factory.mktemp("killed")
    with ThreadPoolExecutor(PARALLEL) as pool:
        kills = [pool.submit(start_and_kill, kill, store) for kill in KILLS]
        before, left = zip(*(kill.result() for kill in kills), strict=True)
    first, second = (splitbrain("heal", "--store", store) for _ in range(2))
    assert (first.code, second.code) == (EXIT_VALID, EXIT_VALID)
    return Aftermath(store, list(before), list(left), first.out.splitlines(), second.out.splitlines())


def test_kills_happen_from_startup_to_active_faults(aftermath):
    recorded = [run for run in aftermath.runs if list(run.history.glob("*.parquet"))]
    faulty = [run for run in aftermath.runs if run.journal.exists()]
    assert EACH < len(recorded) < len(KILLS)
    assert len(faulty) >= EACH
    running = sorted(aftermath.before[2 * EACH :])
    assert running[0] >= PROCESSES_UNDER_FAULTS
    assert running[len(running) // 2] >= PROCESSES_WHEN_RUNNING
    faults = {json.loads(line).get("fault") for run in faulty for line in run.journal.read_text().splitlines()}
    assert len(faults) >= 2, faults


def test_the_kernel_ends_every_process_of_a_run_whose_command_was_killed(aftermath):
    assert aftermath.left == [[]] * len(KILLS)
    assert processes_naming(aftermath.store) == []


def test_no_mount_loop_device_rule_link_or_cgroup_is_left(aftermath):
    assert [path for path in CGROUPS.glob("*/splitbrain-*") if aftermath.has_run_named(path.name)] == []
    assert str(aftermath.store) not in Path("/proc/mounts").read_text()
    assert str(aftermath.store) not in "".join(path.read_text() for path in LOOPS.glob("loop*/loop/backing_file"))
    for command, name in ((["nft", "list", "tables"], "splitbrain"), (["ip", "-o", "link"], "splitbrain0")):
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        assert name not in listed.stdout


def test_recorded_history_is_a_prefix_without_gaps(aftermath):
    lengths = []
    for run in aftermath.runs:
        if run.history.is_dir():
            ops = list(read_history(run.history))
            assert [op.index for op in ops] == list(range(len(ops)))
            lengths.append(len(ops))
    assert max(lengths) > 10, "no run has recorded enough to show anything, even on a busy machine"


def test_later_runs_and_one_heal_clean_up_every_killed_run(aftermath):
    healed = {line.partition(":")[0] for line in aftermath.healed}
    assert healed
    assert healed <= {run.name for run in aftermath.runs}
    assert {run.status for run in aftermath.runs} <= {"interrupted", "judged"}
    assert aftermath.healed_again == ["nothing to heal"]


def test_no_run_has_an_open_fault_after_healing(aftermath):
    assert {run.status for run in aftermath.runs} <= {"interrupted", "judged"}
    assert [undo for run in aftermath.runs for undo in pending(run.journal)] == []


def test_killed_reproduction_is_healed_with_its_sides(tmp_path):
    command = start_splitbrain("reproduce", "PV-01", "--store", tmp_path)
    wait_until(
        lambda: list(tmp_path.glob("*/bad-1/history/*.parquet")), "the bad side has recorded something", command=command
    )
    command.kill()
    command.wait()
    wait_until(lambda: not processes_naming(tmp_path), "no process of the run is left")
    (reproduction,) = runs(tmp_path)
    first, second = (splitbrain("heal", "--store", tmp_path) for _ in range(2))
    assert {line.partition(":")[0] for line in first.out.splitlines()} == {reproduction.name, "bad-1", "good-1"}
    assert [run.status for run in (reproduction, *reproduction.sides())] == ["interrupted"] * 3
    assert second.out == "nothing to heal\n"


def test_interrupted_reproduction_has_interrupted_sides(tmp_path):
    command = start_splitbrain("reproduce", "PV-01", "--store", tmp_path)
    recorded = ("*/bad-1/history/*.parquet", "*/good-1/history/*.parquet")
    wait_until(lambda: all(list(tmp_path.glob(each)) for each in recorded), "both sides have begun", command=command)
    command.send_signal(signal.SIGINT)
    command.wait(60)
    (reproduction,) = runs(tmp_path)
    assert [run.status for run in (reproduction, *reproduction.sides())] == ["interrupted"] * 3
    assert splitbrain("heal", "--store", tmp_path).out == "nothing to heal\n"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_killed_run_can_be_checked_and_is_unknown(aftermath):
    longest = max(aftermath.runs, key=lambda run: len(list(run.history.glob("*.parquet"))))
    result = splitbrain_here("check", longest.path)
    assert result.code == EXIT_UNKNOWN, result
    assert "interrupted" in result.out
