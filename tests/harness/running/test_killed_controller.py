"""`splitbrain run` killed at random moments of its life: what it recorded reads, and nothing of it is left.

Twenty runs (SPLITBRAIN_KILLS each of four points, 5 if not said), four at a time, on the reference quorum with clients,
under every fault that there is, two at once, on disks of the nodes' own. Each is killed a while after it has come to
one of the points; the whiles are drawn from a fixed seed.
"""

from __future__ import annotations

import json
import os
import random
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
from tests.support.command import begin, processes_naming, splitbrain, wait_until

pytestmark = [pytest.mark.netns, pytest.mark.timeout(600 if "SPLITBRAIN_KILLS" in os.environ else 200)]

AT_A_TIME = 4
LOOPS = Path("/sys/block")
CGROUPS = Path("/sys/fs/cgroup")
PROCESSES_WHEN_RUNNING = 5  # unshare, the controller and three nodes name the run's directory; others are beside them
PROCESSES_UNDER_FAULTS = 2  # a fault may just have killed every node
POINTS = {
    # point: the file of a run that says it has come there, and up to how many seconds after that to kill
    "started": (None, 1.5),
    "has a sandbox": ("sandbox.json", 1.0),
    "has recorded": ("history/*.parquet", 2.0),
    "is under faults": ("journal.jsonl", 6.0),
}
FAULTS = [name for name in plugins.faults() if name != "membership"]  # it takes a Kafka with brokers
DISK = "ext4" if os.geteuid() == 0 else "tmpfs"
FLAGS = ["--system", "reference", "--workload", "register", "--faults", ",".join(FAULTS), "--at-once", "2"]
FLAGS += ["--interval", "1", "--disk", DISK, "--disk-mib", "32"]
FLAGS += ["--memory-mib", "512"] if os.geteuid() == 0 else []  # a cgroup outlives its sandbox
LOAD = ["--time-limit", "60", "--rate", "50", "--concurrency", "4"]
EACH = int(os.environ.get("SPLITBRAIN_KILLS", "5"))
KILLS = [f"{point} {number}" for point in POINTS for number in range(EACH)]
HEALED_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Aftermath:
    """A store with the runs that were killed, what was seen around each kill, and what the two healings said."""

    store: Path
    before: list[int]
    left: list[list[str]]
    healed: list[str]
    healed_again: list[str]

    def ours(self, name: str) -> bool:
        """Whether a name is of one of these runs."""
        return any(run.label in name for run in self.runs)

    @property
    def runs(self) -> list[RunDirectory]:
        return runs(self.store)


def play_and_kill(kill: str, store: Path) -> tuple[int, list[str]]:
    """Start a run and kill it; how many processes it had then, and which are left when the kernel had time."""
    sign, seconds_max = POINTS[kill.rpartition(" ")[0]]
    name = kill.replace(" ", "_")
    command = begin("run", *FLAGS, *LOAD, "--name", name, "--seed", KILLS.index(kill), "--store", store)
    if sign:
        wait_until(lambda: any(store.glob(f"*-{name}-*/{sign}")), f"the run {kill}", command=command)
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
    """The processes of a run beside its command: a run's directory bears its name, which no other has."""
    return [words for words in processes_naming(store) if f"-{name}-" in words]


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    store = tmp_path_factory.mktemp("killed")
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        kills = [pool.submit(play_and_kill, kill, store) for kill in KILLS]
        before, left = zip(*(kill.result() for kill in kills), strict=True)
    first, second = (splitbrain("heal", "--store", store) for _ in range(2))
    assert (first.code, second.code) == (EXIT_VALID, EXIT_VALID)
    return Aftermath(store, list(before), list(left), first.out.splitlines(), second.out.splitlines())


def test_the_kills_reach_from_the_start_up_into_the_faults(aftermath):
    recorded = [run for run in aftermath.runs if list(run.history.glob("*.parquet"))]
    faulty = [run for run in aftermath.runs if run.journal.exists()]
    assert EACH < len(recorded) < len(KILLS)
    assert len(faulty) >= EACH
    running = sorted(aftermath.before[2 * EACH :])
    assert running[0] >= PROCESSES_UNDER_FAULTS
    assert running[len(running) // 2] >= PROCESSES_WHEN_RUNNING
    deeds = {json.loads(line).get("fault") for run in faulty for line in run.journal.read_text().splitlines()}
    assert len(deeds) >= 3, deeds


def test_the_kernel_ends_every_process_of_a_run_whose_command_was_killed(aftermath):
    assert aftermath.left == [[]] * len(KILLS)
    assert processes_naming(aftermath.store) == []


def test_no_mount_loop_device_rule_link_or_cgroup_is_left(aftermath):
    assert [path for path in CGROUPS.glob("*/splitbrain-*") if aftermath.ours(path.name)] == []
    assert str(aftermath.store) not in Path("/proc/mounts").read_text()
    assert str(aftermath.store) not in "".join(path.read_text() for path in LOOPS.glob("loop*/loop/backing_file"))
    for command, ours in ((["nft", "list", "tables"], "splitbrain"), (["ip", "-o", "link"], "splitbrain0")):
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ours not in said.stdout


def test_what_was_recorded_is_a_prefix_of_the_history_without_gaps(aftermath):
    lengths = []
    for run in aftermath.runs:
        if run.history.is_dir():
            ops = list(read_history(run.history))
            assert [op.index for op in ops] == list(range(len(ops)))
            lengths.append(len(ops))
    assert max(lengths) > 50


def test_a_later_run_or_heal_settles_every_killed_one_and_a_second_time_there_is_nothing_to_heal(aftermath):
    told = {line.partition(":")[0] for line in aftermath.healed}
    assert told
    assert told <= {run.name for run in aftermath.runs}
    assert {run.status for run in aftermath.runs} <= {"interrupted", "judged"}
    assert aftermath.healed_again == ["nothing to heal"]


def test_after_healing_every_run_is_interrupted_with_no_fault_open(aftermath):
    assert {run.status for run in aftermath.runs} <= {"interrupted", "judged"}
    assert [undo for run in aftermath.runs for undo in pending(run.journal)] == []


def test_a_reproduction_that_was_killed_is_healed_with_its_sides(tmp_path):
    command = begin("reproduce", "PV-01", "--store", tmp_path)
    wait_until(
        lambda: list(tmp_path.glob("*/bad-1/history/*.parquet")), "the bad side has recorded something", command=command
    )
    command.kill()
    command.wait()
    wait_until(lambda: not processes_naming(tmp_path), "nothing is left of it")
    (reproduction,) = runs(tmp_path)
    first, second = (splitbrain("heal", "--store", tmp_path) for _ in range(2))
    assert {line.partition(":")[0] for line in first.out.splitlines()} == {reproduction.name, "bad-1"}
    assert [run.status for run in (reproduction, *reproduction.sides())] == ["interrupted", "interrupted"]
    assert second.out == "nothing to heal\n"


@pytest.mark.spark
def test_a_killed_run_can_be_judged_and_is_never_valid(aftermath):
    longest = max(aftermath.runs, key=lambda run: len(list(run.history.glob("*.parquet"))))
    said = splitbrain("check", longest.path)
    assert said.code == EXIT_UNKNOWN, said
    assert "interrupted" in said.out
